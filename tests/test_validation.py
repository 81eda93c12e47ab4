import numpy as np
import pandas as pd
import pytest

from fkd.validation import (
    check_numeric_columns,
    choice,
    finite,
    positive,
    real_matrix,
    sensitive_matrix,
    target_vector,
    whole,
)


@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, "1", None])
def test_what_is_not_a_positive_number_is_refused_by_name(value):
    with pytest.raises(ValueError, match="ridge must be a finite number above 0"):
        positive("ridge", value)


@pytest.mark.parametrize("value", [np.nan, -np.inf, "1"])
def test_what_is_not_finite_is_refused_by_name(value):
    with pytest.raises(ValueError, match="coef0 must be a finite number"):
        finite("coef0", value)


@pytest.mark.parametrize("value", [1.5, True, "2", None])
def test_what_is_not_whole_is_refused_by_name(value):
    with pytest.raises(ValueError, match="iterations must be a whole number"):
        whole("iterations", value, low=0)


@pytest.mark.parametrize(("value", "limits"), [(0, r"\[1, 9\]"), (10, r"\[1, 9\]")])
def test_what_is_out_of_bounds_is_refused_with_the_bounds(value, limits):
    with pytest.raises(ValueError, match=f"landmarks must be in {limits}, got {value}"):
        whole("landmarks", value, low=1, high=9)


def test_numpy_numbers_pass():
    assert whole("m", np.int64(3), low=0) == 3
    assert positive("a", np.float32(0.5)) == 0.5


@pytest.mark.parametrize("value", ["rfb", 3, None])
def test_what_is_no_option_is_refused_with_the_options(value):
    with pytest.raises(ValueError, match="kernel must be one of rbf, linear"):
        choice("kernel", value, ("rbf", "linear"))


@pytest.mark.parametrize(
    ("bad", "kind"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf"), (1e300, r"1e\+300")]
)
def test_a_bad_number_is_refused_with_its_column(bad, kind):
    A = np.ones((4, 3))
    A[2, 1] = bad
    with pytest.raises(ValueError, match=f"X must .*{kind} in column 1"):
        real_matrix("X", A)
    with pytest.raises(ValueError, match=f"X must .*{kind} in column 'age'"):
        real_matrix("X", pd.DataFrame(A, columns=["a", "age", "b"]))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,)])
def test_an_empty_table_is_refused(shape):
    with pytest.raises(ValueError, match="at least one row"):
        real_matrix("X", np.empty(shape))


def test_three_dimensions_are_refused():
    with pytest.raises(ValueError, match="one or two dimensions, got 3"):
        real_matrix("X", np.ones((2, 2, 2)))


def test_complex_numbers_are_refused():
    with pytest.raises(ValueError, match="Complex data"):
        real_matrix("X", np.ones((2, 2), dtype=complex))


def test_objects_that_are_numbers_pass():
    A = real_matrix("X", np.array([[1, 2.5], [True, 3]], dtype=object))
    assert A.dtype == np.float64


def test_text_is_refused_with_its_column():
    frame = pd.DataFrame({"age": [30, 40], "sex": ["f", "m"]})
    with pytest.raises(ValueError, match="X column 'sex' must hold numbers"):
        check_numeric_columns("X", frame)
    with pytest.raises(ValueError, match=r"sensitive_features column 'sex' .*fkd.one_hot"):
        sensitive_matrix(frame["sex"], 2)


def test_no_sensitive_features_is_a_type_error_with_the_cure():
    with pytest.raises(TypeError, match=r"fit\(..., sensitive_features=S\).*set_fit_request"):
        sensitive_matrix(None, 3)


def test_a_vector_of_sensitive_values_becomes_a_column():
    assert sensitive_matrix([1, 2, 3], 3).shape == (3, 1)


@pytest.mark.parametrize("value", [0.0, 3.0, 1e-300, 1e9])
def test_a_constant_sensitive_column_is_refused_by_name(value):
    frame = pd.DataFrame({"age": [1.0, 2.0, 3.0], "share": [value] * 3})
    with pytest.raises(ValueError, match="column 'share' must vary"):
        sensitive_matrix(frame, 3)


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_a_varying_column_passes_in_any_unit(scale):
    assert np.ptp(sensitive_matrix(scale * np.arange(1.0, 4.0), 3)) > 0


def test_another_number_of_rows_is_refused():
    with pytest.raises(ValueError, match=r"one row per sample \(4\), got 3"):
        sensitive_matrix(np.arange(3.0), 4)
    with pytest.raises(ValueError, match=r"one number per sample \(4\), got 3"):
        target_vector(np.arange(3.0), 4)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_a_bad_target_is_refused(bad):
    with pytest.raises(ValueError, match="y must"):
        target_vector([1.0, bad], 2)


def test_a_missing_target_is_refused():
    with pytest.raises(ValueError, match="requires y"):
        target_vector(None, 2)
