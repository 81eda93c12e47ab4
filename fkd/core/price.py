"""What a price of dependence means to each machine.

A penalty is the price of a squared covariance of the prediction with a function of s, in units of
the machine's mean loss. Each machine minimises its loss plus a multiple of wᵀ(I + mu T Tᵀ)w: the
mu of a penalty follows from that multiple. (docs/shrinkage.md has the derivation.) Everywhere n is
the number of rows, or the sum of their weights.
"""


def ridge_mu(penalty: float, *, n: float, alpha: float) -> float:
    """Return mu for kernel ridge regression: mean squared error + penalty·covariance².

    Sum of squares + alpha·wᵀ(I + mu T Tᵀ)w, divided by n. A Gaussian process is one whose alpha is
    its ratio of noise to amplitude.
    """
    return penalty * n / alpha


def margin_mu(penalty: float, *, n: float, C: float, unit: float = 1.0) -> float:
    """Return mu for support vector machines: mean loss + penalty·covariance² / unit.

    ½·wᵀ(I + mu T Tᵀ)w + C·(sum of losses), divided by C n. The loss of a regression is linear in
    the target, a covariance squared is not: `unit` is the target's deviation, so that its unit
    changes nothing; a classifier's decisions have none.
    """
    return 2.0 * C * n * penalty / unit


def fkl_penalty(mu: float, *, n: float) -> float:
    """Return what the published mu of fair kernel learning is as a penalty.

    It minimises the sum of squares + alpha·|w|² + mu·|n Tᵀw|²: divided by n, the price of |Tᵀw|²
    is mu·n.
    """
    return mu * n
