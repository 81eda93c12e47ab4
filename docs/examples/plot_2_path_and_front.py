"""
Error against dependence along a path
=====================================

One factorisation of the kernel serves all numbers of iterations. On held-out communities of the
Communities and Crime data, the error rises while the dependence on the share of Black residents
falls. The knee of the front is the point after which less dependence costs clearly more error.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import mean_absolute_error

from fkd import FairKernelRidge
from fkd.datasets import load_crimes
from fkd.measures import gdp
from fkd.measures.pareto import knee, non_dominated

crimes = load_crimes()
X, y, s = crimes.data, crimes.target, crimes.sensitive
train, test = np.split(np.random.default_rng(0).permutation(len(y)), [1400])

lengths = [0, 1, 2, 3, 4, 6, 8, 12, 20]
wanted = {"alphas": [1.0], "iterations": lengths}
model = FairKernelRidge(gamma=0.05, held_out=0)
path = model.fit_path(X[train], y[train], sensitive_features=s[train], **wanted)

# %%
# Each point is one number of iterations, measured on held-out rows. The circle marks the knee.

predicted = [path[m, 1.0].predict(X[test]) for m in lengths]
points = np.array([[gdp(f, s[test]), mean_absolute_error(y[test], f)] for f in predicted])
front = points[non_dominated(points)]
figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
axis.plot(*front[np.argsort(front[:, 0])].T, color="lightgrey", zorder=0)
axis.scatter(*points.T)
axis.scatter(*points[knee(points)], s=120, facecolors="none", edgecolors="C3")
for m, point in zip(lengths, points, strict=True):
    axis.annotate(str(m), point, xytext=(4, 4), textcoords="offset points")
axis.set(xlabel="GDP (left is fairer)", ylabel="mean absolute error")
