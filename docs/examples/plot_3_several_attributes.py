"""
Several protected attributes at once
====================================

``sensitive_features`` may have several columns. Each iteration removes one direction per column.
Units and offsets do not matter, and the columns may be correlated.
"""

import matplotlib.pyplot as plt
import numpy as np

from fkd import FairKernelRidge
from fkd.measures import gdp

rng = np.random.default_rng(0)
share = rng.beta(2, 5, size=1500)
age = 20 + 50 * rng.beta(2 + 2 * share, 3, size=1500)
S = np.column_stack([age, share])
X = np.column_stack([age / 50, 2 * share, rng.normal(size=1500)])
X += 0.1 * rng.normal(size=X.shape)
y = X.sum(axis=1)
train, test = slice(0, 1000), slice(1000, None)

columns = {"nothing": (S, 0), "age": (age, 10), "share": (share, 10), "both": (S, 10)}
found = {}
for name, (removed, iterations) in columns.items():
    model = FairKernelRidge(gamma=0.5, iterations=iterations, held_out=0)
    model.fit(X[train], y[train], sensitive_features=removed[train])
    found[name] = gdp(model.predict(X[test]), S[test])

# %%
# If one column is removed, the dependence on the other one stays. If both are, both fall.

figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
for column, title in enumerate(("on age", "on share")):
    values = [both[column] for both in found.values()]
    axis.bar(np.arange(4) + 0.35 * column, values, width=0.35, label=title)
axis.set_xticks(np.arange(4) + 0.175, found)
axis.set(xlabel="removed", ylabel="GDP of the predictions")
axis.legend()
