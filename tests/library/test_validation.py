"""Validation of arguments: errors name the column."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from fkd.core.validation import column_names, real_matrix, sensitive_matrix


def test_a_column_is_spoken_of_by_its_label_else_by_its_number():
    assert column_names(pd.DataFrame({"age": [1], 7: [2]}), 2) == ["'age'", "7"]
    assert column_names(pd.Series([1], name="age"), 1) == ["'age'"]
    assert column_names(pd.Series([1]), 1) == ["0"]
    assert column_names(np.ones((1, 3)), 3) == ["0", "1", "2"]


def test_a_series_is_named_in_its_fault():
    with pytest.raises(ValueError, match="'age'"):
        real_matrix("sensitive_features", pd.Series([1.0, np.inf], name="age"))


def test_sparse_sensitive_columns_are_refused_by_name():
    with pytest.raises(ValueError, match=r"sensitive_features must be dense.*toarray"):
        sensitive_matrix(csr_array(np.arange(4.0)[:, None]), 4)
