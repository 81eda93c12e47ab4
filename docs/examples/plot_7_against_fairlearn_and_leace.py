"""
Against fairlearn and LEACE
===========================

The CorrelationRemover of fairlearn and LEACE of the package concept-erasure remove the protected
attribute from the *inputs*, linearly. A kernel method after them still finds nonlinear dependence.
Here one input contains the square of the attribute, which is uncorrelated with the attribute.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from concept_erasure import LeaceEraser
from fairlearn.preprocessing import CorrelationRemover
from sklearn.kernel_ridge import KernelRidge

from fkd import FairKernelRidge
from fkd.measures import hgr

rng = np.random.default_rng(0)
s = rng.uniform(-1, 1, size=1500)
X = np.column_stack([s, s**2, rng.uniform(size=1500)]) + 0.1 * rng.normal(size=(1500, 3))
y = X.sum(axis=1)
train, test = slice(0, 1000), slice(1000, None)

remover = CorrelationRemover(sensitive_feature_ids=[3])  # needs s to predict, too
removed = remover.fit(np.column_stack([X, s])[train]).transform(np.column_stack([X, s]))
eraser = LeaceEraser.fit(torch.tensor(X[train]), torch.tensor(s[train]))
inputs = {"plain": X, "CorrelationRemover": removed, "LEACE": eraser(torch.tensor(X)).numpy()}
ridge = KernelRidge(kernel="rbf", gamma=1.0, alpha=1.0)
found = {name: ridge.fit(Z[train], y[train]).predict(Z) for name, Z in inputs.items()}
fair = FairKernelRidge(gamma=1.0, removal="shrinkage", penalty=300.0, held_out=0)
found["FairKernelRidge"] = fair.fit(X[train], y[train], sensitive_features=s[train]).predict(X)

# %%
# HGR is the largest correlation between functions of the prediction and of the attribute.

figure, axes = plt.subplots(1, 4, figsize=(11, 3), sharey=True, layout="constrained")
for axis, (name, predicted) in zip(axes, found.items(), strict=True):
    axis.scatter(s[test], predicted[test], s=6)
    axis.set(title=f"{name}\nHGR {hgr(predicted[test], s[test]):.2f}", xlabel="s", ylabel="f")
