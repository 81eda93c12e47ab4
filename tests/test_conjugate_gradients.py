"""Conjugate gradients against direct solves; what cannot be solved is named."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fkd.paper.algorithm2 import solve_systems


def systems(rng, conditions, n=120, w=2):
    """Positive definite matrices of given condition with right-hand sides."""
    found = []
    for condition in conditions:
        Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
        found.append((Q * np.geomspace(1.0, condition, n)) @ Q.T)
    return found, [rng.normal(size=(n, w)) for _ in conditions]


def solved(matrices, B, names=None, passes=None, **options):
    def apply(which, panels):
        if passes is not None:
            passes.append(list(which))
        return [matrices[i] @ P for i, P in zip(which, panels, strict=True)]

    return solve_systems(
        apply,
        B,
        precondition=lambda which, R: [r.copy() for r in R],
        names=names or [f"alpha={i}" for i in range(len(B))],
        **options,
    )


@pytest.mark.parametrize("condition", [1.0, 50.0, 1e4])
def test_solutions_are_those_of_a_direct_solve(rng, condition):
    matrices, B = systems(rng, [condition])
    (X,) = solved(matrices, B)
    assert_allclose(X, np.linalg.solve(matrices[0], B[0]), atol=1e-10 * condition)


def test_distinct_eigenvalues_bound_the_passes(rng):
    Q = np.linalg.qr(rng.normal(size=(60, 60)))[0]
    A = (Q * np.repeat([1.0, 7.0, 50.0], 20)) @ Q.T
    passes = []
    solved([A], [rng.normal(size=(60, 1))], passes=passes)
    assert len(passes) == 3 + 1  # one for each eigenvalue, one that looks at the true residual


def test_a_system_depends_on_no_other_and_leaves_when_it_is_solved(rng):
    matrices, B = systems(rng, [10.0, 1e4, 3.0])
    alone, passes = [solved([A], [b])[0] for A, b in zip(matrices, B, strict=True)], []
    for one, other in zip(solved(matrices, B, passes=passes), alone, strict=True):
        assert_array_equal(one, other)
    assert passes[0] == [0, 1, 2]
    assert passes[-2] == [1]


def test_a_column_of_zeros_is_solved_by_zeros(rng):
    matrices, B = systems(rng, [100.0])
    B[0][:, 1] = 0.0
    (X,) = solved(matrices, B)
    assert not X[:, 1].any()
    assert_allclose(matrices[0] @ X, B[0], atol=1e-8)


def test_a_preconditioner_saves_passes_and_changes_no_solution(rng):
    matrices, B = systems(rng, [1e5])
    A, passes = matrices[0], []
    near = np.linalg.inv(A + 0.5 * np.eye(len(A)))

    def apply(which, panels):
        passes.append(which)
        return [A @ P for P in panels]

    (X,) = solve_systems(apply, B, precondition=lambda _, R: [near @ R[0]], names=["it"])
    plain = []
    (Y,) = solved(matrices, B, passes=plain)
    assert_allclose(X, Y, atol=1e-7)
    assert len(passes) < len(plain) / 5


def test_a_spent_budget_names_the_setting(rng):
    matrices, B = systems(rng, [2.0, 1e8])
    with pytest.raises(ValueError, match=r"after 5 passes for alpha=1e-08; use a larger ridge"):
        solved(matrices, B, names=["alpha=1", "alpha=1e-08"], budget=5)


def test_a_residual_that_rounding_hides_is_named(rng):
    matrices, B = systems(rng, [1.0])
    calls = []

    def drifting(which, panels):
        # What is multiplied at the end is another matrix than what was solved.
        calls.append(which)
        factor = 1.0 if len(calls) < 2 else 1.0 + 1e-5
        return [factor * (matrices[0] @ P) for P in panels]

    with pytest.raises(ValueError, match=r"got 1\.0e-05 after 1 passes"):
        solve_systems(drifting, B, precondition=lambda _, R: list(R), names=["alpha=1"])


def test_numbers_that_are_none_end_by_name(rng):
    matrices, B = systems(rng, [3.0])
    matrices[0][3, 3] = np.nan
    with pytest.raises(ValueError, match="got nan"):
        solved(matrices, B, budget=4)
