"""
A grid search with a fairness scorer
====================================

``scorer`` turns a measure into a scorer for scikit-learn. Metadata routing passes the protected
attribute to fits and scores. The search records error and dependence of every setting, and a
function chooses: here the smallest error among the settings with a GDP of at most 0.05.
"""

import matplotlib.pyplot as plt
import numpy as np
import sklearn
from sklearn.model_selection import GridSearchCV

from fkd import FairKernelRidge
from fkd.measures import scorer

rng = np.random.default_rng(0)
age = rng.uniform(size=600)
X = np.column_stack([age + 0.2 * rng.normal(size=600), rng.uniform(size=(600, 3))])
y = 2 * age + X[:, 1]


def within_limit(found):  # scores are negated, so that greater is better
    return np.where(found["mean_test_gdp"] >= -0.05, found["mean_test_error"], -np.inf).argmax()


grid = {"iterations": [0, 1, 2, 4, 8, 16], "alpha": [0.1, 1.0]}
scoring = {"error": "neg_mean_absolute_error", "gdp": scorer("gdp")}
with sklearn.config_context(enable_metadata_routing=True):
    model = FairKernelRidge(gamma=0.5, held_out=0).set_fit_request(sensitive_features=True)
    search = GridSearchCV(model, grid, scoring=scoring, refit=within_limit)
    search.fit(X, y, sensitive_features=age)

# %%
# The circle marks the chosen setting, the line the limit.

found, best = search.cv_results_, search.best_index_
errors, dependence = (-found[f"mean_test_{name}"] for name in ("error", "gdp"))
figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
axis.scatter(dependence, errors, c=found["param_iterations"])
axis.scatter(dependence[best], errors[best], s=120, facecolors="none", edgecolors="C3")
axis.axvline(0.05, color="lightgrey", zorder=0)
axis.set(xlabel="GDP (colour: iterations)", ylabel="mean absolute error")
