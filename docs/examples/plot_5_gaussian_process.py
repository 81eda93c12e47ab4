"""
A Gaussian process with standard deviations
===========================================

The fair kernel is a covariance function. ``FairGaussianProcess`` chooses its variances by the
marginal likelihood and returns a standard deviation with every prediction. The band shows two
standard deviations. It is wider for the fair kernel, which has less information.
"""

import matplotlib.pyplot as plt
import numpy as np

from fkd import FairGaussianProcess

rng = np.random.default_rng(0)
age = rng.uniform(size=400)
hours = rng.uniform(-3, 3, size=400)
X = np.column_stack([hours, age + 0.1 * rng.normal(size=400)])
y = np.sin(hours) + 2 * age + 0.1 * rng.normal(size=400)

line = np.column_stack([np.linspace(-3, 3, 200), np.full(200, 0.5)])
figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), sharey=True, layout="constrained")
for axis, iterations in zip(axes, (0, 10), strict=True):
    model = FairGaussianProcess(gamma=0.5, iterations=iterations, held_out=0)
    model.fit(X, y, sensitive_features=age)
    mean, deviation = model.predict(line, return_std=True)
    axis.scatter(hours, y, c=age, s=8, cmap="viridis")
    axis.plot(line[:, 0], mean, color="C3")
    band = (mean - 2 * deviation, mean + 2 * deviation)
    axis.fill_between(line[:, 0], *band, color="C3", alpha=0.2)
    axis.set(title=f"{iterations} iterations", xlabel="hours (colour: age)")
