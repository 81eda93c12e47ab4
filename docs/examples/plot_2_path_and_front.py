"""
A whole path, and the front it draws
====================================

How much fairness should be bought with how much error is a choice. One factorisation of the kernel
serves every length of the removal path, so that all of them can be looked at before choosing: error
against dependence on held-out rows, with the settings that no other one beats in both, and the knee
after which more fairness costs clearly more.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import mean_absolute_error

from fkd import FairKernelRidge
from fkd.measures import gdp
from fkd.measures.pareto import knee, non_dominated

rng = np.random.default_rng(0)
age = rng.uniform(20, 70, size=1500)
X = age[:, None] / 50 + rng.normal(scale=(0.1, 0.5, 2.0), size=(1500, 3))
y = X @ [1.0, 0.5, 0.2] + 0.1 * rng.normal(size=1500)
train, test = np.split(np.arange(1500), [1000])

lengths = [0, 1, 2, 3, 5, 8, 12, 20]
wanted = {"alphas": [1.0], "iterations": lengths}
model = FairKernelRidge(gamma=0.2, held_out=0)
path = model.fit_path(X[train], y[train], sensitive_features=age[train], **wanted)

# %%
# Each point is one length of the path, on rows that the fit has not seen; the knee is ringed.

predicted = [path[m, 1.0].predict(X[test]) for m in lengths]
points = np.array([[gdp(f, age[test]), mean_absolute_error(y[test], f)] for f in predicted])
front = points[non_dominated(points)]
figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
axis.plot(*front[np.argsort(front[:, 0])].T, color="lightgrey", zorder=0)
axis.scatter(*points.T)
axis.scatter(*points[knee(points)], s=120, facecolors="none", edgecolors="C3")
for m, point in zip(lengths, points, strict=True):
    axis.annotate(str(m), point, xytext=(4, 4), textcoords="offset points")
axis.set(xlabel="GDP (left is fairer)", ylabel="mean absolute error")
