"""
A support vector classifier
===========================

``FairSVC`` is the support vector classifier of scikit-learn on the fair kernel. The figure shows
the share of positive decisions by age.
"""

import matplotlib.pyplot as plt
import numpy as np

from fkd import FairSVC

rng = np.random.default_rng(0)
age = rng.uniform(20, 70, size=1500)
X = np.column_stack([age / 50 + 0.1 * rng.normal(size=1500), rng.uniform(size=(1500, 2))])
granted = X[:, 0] + X[:, 1] + 0.2 * rng.normal(size=1500) > 1.4
train, test = slice(0, 1000), slice(1000, None)

figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
edges = np.linspace(20, 70, 9)
bins = np.digitize(age[test], edges) - 1
for name, iterations in (("nothing removed", 0), ("10 iterations", 10)):
    model = FairSVC(gamma=0.5, iterations=iterations, held_out=0)
    model.fit(X[train], granted[train], sensitive_features=age[train])
    decided = model.predict(X[test])
    right = np.mean(decided == granted[test])
    shares = [decided[bins == k].mean() for k in range(8)]
    axis.plot(edges[:-1] + 3, shares, "o-", label=f"{name}: {right:.0%} correct")
axis.set(xlabel="age in years", ylabel="share granted", ylim=(0, 1))
axis.legend()
