"""
A hundred thousand rows
=======================

A kernel matrix of 100,000 rows would take 80 GB. Under ``approximation="nystroem"`` rows are
described by their kernel with a few hundred landmarks; the removal needs sums over rows alone,
taken block by block, and no more of the training rows than the landmarks is kept.
"""

import matplotlib.pyplot as plt
import numpy as np

from fkd import FairKernelRidge
from fkd.measures import gdp

rng = np.random.default_rng(0)
n = 100_000
age = rng.uniform(20, 70, size=n)
X = np.column_stack([age / 50 + 0.2 * rng.normal(size=n), rng.uniform(-2, 2, size=(n, 3))])
y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=n)
fresh = slice(80_000, None)

found = []
options = {"approximation": "nystroem", "landmarks": 200, "random_state": 0, "held_out": 0}
for iterations in (0, 2, 5, 10, 20):
    model = FairKernelRidge(gamma=0.5, iterations=iterations, **options)
    model.fit(X[:80_000], y[:80_000], sensitive_features=age[:80_000])
    predicted = model.predict(X[fresh])
    found.append((gdp(predicted, age[fresh]), np.abs(predicted - y[fresh]).mean()))

# %%
# Dependence and error of the 20,000 rows that were left out.

figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
axis.plot([0, 2, 5, 10, 20], found, "o-", label=["GDP", "mean absolute error"])
axis.set(xlabel="iterations", ylim=(0, None))
axis.legend()
