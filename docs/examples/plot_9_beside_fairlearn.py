"""
Measures and scorers with fairlearn
===================================

The MetricFrame of fairlearn computes metrics by group. The measures of fkd are for continuous
attributes such as age, and a MetricFrame computes them within each group. Both take survey weights:
here young people were sampled less often than old people, so that each of them counts more.
Metadata routing passes the same weights to the fits and scores of a cross-validation.
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
# ``pairwise_fairness`` is a valid metric for fairlearn; ``sample_params`` passes its arguments.
# GDP does not need the true values and is wrapped in a function that ignores them.

metric = {"MAE": mean_absolute_error, "PF": pairwise_fairness, "GDP": lambda y, f, **k: gdp(f, **k)}
rows = {"MAE": {"sample_weight": weight}, "PF": along, "GDP": along}
table = MetricFrame(metrics=metric, y_true=y, y_pred=f, sensitive_features=job, sample_params=rows)
figure, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
table.by_group.plot.bar(ax=axes, subplots=True, legend=False, rot=0, xlabel="")
figure.suptitle(f"Rows by weight; PF of all rows, mean over five folds: {-scores.mean():.2f}")
