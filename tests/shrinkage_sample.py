"""Rows that lean on s in a bent way, with the shrunk kernel by a road of its own."""

import numpy as np
from scipy.spatial.distance import cdist

GAMMA = 0.3


def bent(rng, n=300, d=3):
    """Inputs of which two lean on s, one of them without any correlation; a target; s itself."""
    s = rng.uniform(size=n)
    X = rng.normal(size=(n, d))
    X[:, 0] += 3 * s
    X[:, 1] += 6 * (s - 0.5) ** 2
    y = X[:, 0] + X[:, 1] + np.sin(2 * X[:, -1]) + 0.1 * rng.normal(size=n)
    return X, y, s


def rbf(X, Z, gamma=GAMMA):
    return np.exp(-gamma * cdist(np.c_[X], np.c_[Z], metric="sqeuclidean"))


def unit(s):
    """Columns in units of their range."""
    S = np.column_stack([s])
    return (S - S.min(axis=0)) / np.ptp(S, axis=0)


def factor(K):
    """Return B with B Bᵀ = K, by eigenvectors."""
    lam, V = np.linalg.eigh(K)
    keep = lam > 1e-13 * lam[-1]
    return V[:, keep] * np.sqrt(lam[keep])


def shrunk(left, K, right, B, mu):
    """Return k(left, right) - k(left, X) H B (n²/mu + BᵀHKHB)⁻¹ BᵀH k(X, right), for mu > 0.

    That is G (I + mu T Tᵀ)⁻¹ Gᵀ by Woodbury, without any features: `left` and `right` are pairs of
    a kernel with the training rows.
    """
    plain, (to_train, from_train) = left, right
    HB = B - B.mean(axis=0)
    A = HB.T @ K @ HB
    A.flat[:: len(A) + 1] += len(K) ** 2 / mu
    return plain - to_train @ HB @ np.linalg.solve(A, HB.T @ from_train)


def shrunk_gram(K, B, mu):
    return shrunk(K, K, (K, K), B, mu)


def covariances(f, B):
    """Return the covariance of every prediction or feature with every function."""
    F = np.column_stack([f])
    return (F - F.mean(axis=0)).T @ (B - B.mean(axis=0)) / len(B)
