"""Rows that are added to an estimator by `partial_fit`."""

from dataclasses import replace
from typing import Any

from fkd.core.feature_maps import KernelSettings
from fkd.core.training import RunningSums, Training
from fkd.core.validation import target_vector
from fkd.core.weights import RowWeights
from fkd.estimators.base import FairPredictor, Inputs

# Maps whose moments of different rows add up. An exact map needs all rows at once.
_REDUCED = ("nystroem", "fourier")


def supports_partial_fit(model: Any) -> bool:
    """Return True for a reduced map, else raise the AttributeError that `available_if` needs."""
    if model.approximation in _REDUCED:
        return True
    raise AttributeError(
        "partial_fit needs approximation='nystroem' or 'fourier', whose moments add up, "
        f"got {model.approximation!r}"
    )


def add_rows(
    model: FairPredictor, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
) -> tuple[RunningSums, Inputs]:
    """Return the sums over these and all earlier rows, and inputs without rows to fit from them."""
    for name in ("given", "unfairness"):
        if getattr(model, name) is not None:
            raise ValueError(
                f"{name} must be None in partial_fit, which keeps no rows, "
                f"got {getattr(model, name)!r}. Use fit"
            )
    running: RunningSums | None = model.__dict__.get("_running")
    X = model._validate_X(X, reset=running is None)
    present = model._present_rows(sample_weight, X.shape[0], least=2 if running is None else 1)
    weights = RowWeights.from_weights(present.w, model.weigh)
    X, n = present.inputs(X), len(present)
    z = target_vector(present.select("y", y), n)
    z = model._prepare_target(z, n, weights.fit) if running is None else model._scale.scaled(z)
    # A few further rows may all have the same value, the first ones must not.
    values = present.select("sensitive_features", sensitive_features)
    S = model._validate_sensitive(values, n, vary=running is None)
    training = Training(X, z, S, model.random_state, weights)
    # The landmarks are those of the first rows; there may be fewer further rows than landmarks.
    rows = n if running is None else max(n, model.landmarks or n)
    kernel = KernelSettings.from_estimator(model, rows)
    removal = model._removal_settings(X.shape[1])
    if running is None:
        running = RunningSums.from_rows(training, kernel, removal, center=model._centers())
    else:
        running = running.add(training)
    model.strength_, model.unfairness_, model.held_out_ = model._strength(), None, None
    shared = replace(kernel, approximation=replace(kernel.approximation, shared=True))
    return running, Inputs(running.training(), shared, removal)
