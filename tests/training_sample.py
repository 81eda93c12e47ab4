"""A small training fold that the tests of the methods share."""

import numpy as np

from fkd.methods import Training, method


def make_training(rng, n=60, d=4, l=2, seed=0):
    """Rows whose first columns carry S; its columns differ in mean and scale."""
    X = rng.uniform(size=(n, d))
    noise = rng.uniform(size=(n, l))
    S = np.array([0.1, -3.0])[:l] + np.array([0.5, 2.0])[:l] * (X[:, :l] + 0.5 * noise)
    y = X[:, 0] - 0.7 * X[:, 1] + np.sin(3 * X[:, 2]) + 0.1 * rng.normal(size=n)
    return Training(X, y, S, seed)


def fit_one(name, training, **parameters):
    """The predictor of one setting."""
    declared = method(name)
    (predictor,) = declared.fit(training, [declared.parameters(**parameters)])
    return predictor


def published_fkl(K, K_s, y, *, alpha, mu):
    """Coefficients (K + alpha·I + mu·H K_s H K)⁻¹ y of fair kernel learning as published."""
    H = np.eye(len(K)) - 1 / len(K)
    return np.linalg.solve(K + alpha * np.eye(len(K)) + mu * H @ K_s @ H @ K, y)


def worst_correlation(f, S):
    """The largest absolute correlation of a prediction, or of any feature, with a column of S."""
    F = np.column_stack([f])
    R = np.corrcoef(F, S, rowvar=False)[: F.shape[1], F.shape[1] :]
    return np.abs(R).max()
