import io

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fkd.core.predictors import (
    PREDICTORS,
    ConstantPrediction,
    CorrectedExpansion,
    FourierExpansion,
    KernelExpansion,
    LinearCorrection,
    Perceptron,
    ProjectedExpansion,
    SensitiveExpansion,
)


def kernel_expansion(rng, kernel="rbf"):
    return KernelExpansion(
        kernel, 0.3, 2, 0.5, rng.normal(size=(6, 3)), rng.normal(size=6), intercept=1.5
    )


def projected(rng):
    U, _ = np.linalg.qr(rng.normal(size=(3, 1)))
    return ProjectedExpansion(kernel_expansion(rng), U)


def fourier(rng):
    return FourierExpansion(rng.normal(size=(3, 7)), rng.uniform(size=7), rng.normal(size=7), 0.5)


def corrected(rng):
    correction = LinearCorrection(
        rng.normal(size=3), rng.normal(size=(3, 2)), rng.normal(size=(3, 2))
    )
    return CorrectedExpansion(kernel_expansion(rng), correction)


def sensitive(rng):
    inner = KernelExpansion(
        "rbf", 0.3, 2, 0.5, rng.normal(size=(6, 2)), rng.normal(size=6), intercept=1.5
    )
    return SensitiveExpansion(inner, rng.normal(size=1))


def perceptron(rng):
    shapes = [(3, 5), (5, 4), (4, 1)]
    return Perceptron(
        tuple(rng.normal(size=shape) for shape in shapes),
        tuple(rng.normal(size=width) for _, width in shapes),
    )


MAKERS = {
    "kernel": kernel_expansion,
    "fourier": fourier,
    "projected": projected,
    "corrected": corrected,
    "sensitive": sensitive,
    "perceptron": perceptron,
    "constant": lambda rng: ConstantPrediction(2.5),
}


@pytest.mark.parametrize("kind", sorted(PREDICTORS))
def test_a_predictor_survives_a_file_without_pickle(rng, kind):
    predictor = MAKERS[kind](rng)
    X = rng.normal(size=(11, 3))
    file = io.BytesIO()
    np.savez(file, **predictor.arrays())
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        restored = PREDICTORS[kind].from_arrays(arrays)
    assert_array_equal(restored.predict(X), predictor.predict(X))


@pytest.mark.parametrize("kind", sorted(PREDICTORS))
def test_blocks_leave_no_seam(rng, kind, monkeypatch):
    monkeypatch.setattr("fkd.core.predictors.BLOCK_ROWS", 4)
    predictor = MAKERS[kind](rng)
    X = rng.normal(size=(11, 3))
    X.flags.writeable = False
    one_by_one = [predictor.predict(X[i : i + 1])[0] for i in range(11)]
    assert_allclose(predictor.predict(X), one_by_one, rtol=1e-12)


def test_a_kernel_expansion_is_its_formula(rng):
    f = kernel_expansion(rng)
    X = rng.normal(size=(4, 3))
    distance = ((X[:, None] - f.centers) ** 2).sum(axis=2)
    assert_allclose(f.predict(X), np.exp(-0.3 * distance) @ f.coef + 1.5)


def test_a_projected_expansion_does_not_see_the_removed_direction(rng):
    f = projected(rng)
    X = rng.normal(size=(4, 3))
    assert_allclose(f.predict(X + 5 * f.U.T), f.predict(X), rtol=1e-9)
    assert np.abs(f.inner.predict(X + 5 * f.U.T) - f.inner.predict(X)).max() > 1e-3  # it would


def test_a_corrected_expansion_of_fourier_features_survives_its_arrays(rng):
    f = CorrectedExpansion(fourier(rng), corrected(rng).correction)
    X = rng.normal(size=(4, 3))
    assert_array_equal(CorrectedExpansion.from_arrays(f.arrays()).predict(X), f.predict(X))


def test_a_sensitive_expansion_adds_what_stands_behind_the_inputs(rng):
    inner = fourier(rng)
    f = SensitiveExpansion(inner, np.array([2.0, -1.0]))
    X, S = rng.normal(size=(4, 3)), rng.normal(size=(4, 2))
    rows = np.hstack([X, S])
    assert_allclose(f.predict(rows), inner.predict(X) + 2 * S[:, 0] - S[:, 1], rtol=1e-12)
    again = SensitiveExpansion.from_arrays(f.arrays())
    assert_array_equal(again.predict(rows), f.predict(rows))
    with pytest.raises(ValueError, match="5 columns"):
        f.predict(X)


def test_a_kernel_function_cannot_be_exported(rng):
    f = kernel_expansion(rng, kernel=lambda X, Z: X @ Z.T)
    assert np.isfinite(f.predict(rng.normal(size=(2, 3)))).all()
    with pytest.raises(ValueError, match="kernel must be a named kernel"):
        f.arrays()


@pytest.mark.parametrize(
    "kind", ["corrected", "kernel", "fourier", "perceptron", "projected", "sensitive"]
)
@pytest.mark.parametrize("shape", [(4, 2), (3,)])
def test_rows_of_another_width_are_refused(rng, kind, shape):
    with pytest.raises(ValueError, match="3 columns"):
        MAKERS[kind](rng).predict(np.ones(shape))
