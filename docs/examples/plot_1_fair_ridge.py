"""
A fair ridge regression
=======================

A kernel ridge regression predicts pay from three inputs. One of them, seniority, is correlated with
age, so that the predictions rise with age. ``FairKernelRidge`` removes from the kernel features the
directions that predict age, in ten iterations. Age is needed for the fit but not for predictions.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.kernel_ridge import KernelRidge

from fkd import FairKernelRidge
from fkd.measures import gdp

rng = np.random.default_rng(0)
age = rng.uniform(20, 70, size=1200)
seniority = age / 50 + 0.15 * rng.normal(size=1200)
X = np.column_stack([seniority, rng.uniform(size=(1200, 2))])
pay = seniority + X[:, 1] + 0.1 * rng.normal(size=1200)
train, test = slice(0, 800), slice(800, None)

plain = KernelRidge(kernel="rbf", gamma=1.0, alpha=1.0).fit(X[train], pay[train])
fair = FairKernelRidge(gamma=1.0).fit(X[train], pay[train], sensitive_features=age[train])

# %%
# GDP is the mean distance between the average prediction at an age and the average of all
# predictions, in the unit of the target.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), sharey=True, layout="constrained")
for axis, name, model in zip(axes, ("plain", "fair"), (plain, fair), strict=True):
    predicted = model.predict(X[test])
    axis.scatter(age[test], predicted, s=8)
    axis.set(title=f"{name}: GDP {gdp(predicted, age[test]):.3f}", xlabel="age in years")
axes[0].set_ylabel("predicted pay")
