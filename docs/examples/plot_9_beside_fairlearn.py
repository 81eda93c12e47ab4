"""
Measures and scorers beside fairlearn
=====================================

fairlearn's MetricFrame tabulates metrics by groups of people; ours measure along a number such as
age, within each group. Both count rows by the weights of a survey: here the young were asked more
rarely than the old, so that one of them stands for more people. The same weights go to fits and
scores of a cross-validation, by scikit-learn's metadata routing.
"""

import matplotlib.pyplot as plt
import numpy as np
import sklearn
from fairlearn.metrics import MetricFrame
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import mean_absolute_error
from sklearn.model_selection import cross_val_predict, cross_validate

from fkd.measures import gdp, pairwise_fairness, scorer, survey_weights

rng = np.random.default_rng(0)
age, job = 18 + 62 * np.sqrt(rng.uniform(size=900)), rng.choice(["clerk", "smith"], size=900)
X = np.column_stack([age / 62 + 0.2 * rng.normal(size=900), job == "smith", rng.normal(size=900)])
y = X[:, 2] + 2 * X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=900)
weight = survey_weights(1 / (age - 15))  # in any unit; scaled to sum to 900
along = {"sensitive_features": age, "sample_weight": weight}
with sklearn.config_context(enable_metadata_routing=True):
    model = KernelRidge(kernel="rbf", gamma=0.5).set_fit_request(sample_weight=True)
    scores = cross_validate(model, X, y, scoring=scorer("pf"), params=along)["test_score"]
    f = cross_val_predict(model, X, y, params={"sample_weight": weight})

# %%
# ``pairwise_fairness`` is a metric for fairlearn as it stands: what it needs of each row goes in by
# ``sample_params``. Measures that ask for no truth leave it out.

told = {"MAE": mean_absolute_error, "PF": pairwise_fairness, "GDP": lambda y, f, **k: gdp(f, **k)}
rows = {"MAE": {"sample_weight": weight}, "PF": along, "GDP": along}
table = MetricFrame(metrics=told, y_true=y, y_pred=f, sensitive_features=job, sample_params=rows)
figure, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
table.by_group.plot.bar(ax=axes, subplots=True, legend=False, rot=0, xlabel="")
figure.suptitle(f"Rows by weight; PF of all rows, mean over five folds: {-scores.mean():.2f}")
