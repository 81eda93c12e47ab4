"""
A hundred thousand rows
=======================

The kernel matrix of 100,000 rows would take 80 GB. With ``approximation="nystroem"`` a row is
described by its kernel values with a few hundred landmarks. The removal needs only sums over rows,
which are computed in blocks. The rows here are a synthetic census table; the protected attribute is
age. Shrinkage with a larger penalty removes more of the dependence on it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fkd import FairKernelRidge
from fkd.datasets import make_census
from fkd.measures import gdp

census = make_census(100_000)
# Hours and schooling as numbers; class of worker, marital status, relation and sex as labels.
numbers, labels = (StandardScaler(), [0, 2]), (OneHotEncoder(sparse_output=False), [1, 3, 6, 7])
encoder = make_column_transformer(numbers, labels)
X, y, age = encoder.fit_transform(census.data), np.log10(census.target), census.sensitive
train, test = slice(0, 80_000), slice(80_000, None)

wanted = {"alphas": [1.0], "penalties": [0.0, 1.0, 10.0, 100.0, 1000.0]}
options = {"approximation": "nystroem", "landmarks": 200, "random_state": 0, "held_out": 0}
model = FairKernelRidge(gamma=0.1, removal="shrinkage", **options)
path = model.fit_path(X[train], y[train], sensitive_features=age[train], **wanted)

# %%
# Dependence and error on the 20,000 held-out rows. The target is the logarithm of the income.

predicted = [path[penalty, 1.0].predict(X[test]) for penalty in wanted["penalties"]]
found = [(gdp(f, age[test]), np.abs(f - y[test]).mean()) for f in predicted]
figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
axis.plot(wanted["penalties"], found, "o-", label=["GDP", "mean absolute error"])
axis.set(xlabel="penalty", ylim=(0, None))
axis.set_xscale("symlog")
axis.legend()
