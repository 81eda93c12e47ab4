"""The batched solver: certificates, neighbours, weights."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.svm import SVC, SVR, LinearSVR

from fkd.core import svm as solver_module
from fkd.core.arrays import RowBlock
from fkd.core.moments import Moments
from fkd.core.removal import Directions
from fkd.core.svm import Machine, MachineOutcome, gap_message, solve_machines


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    """Several pieces to a block, several blocks to a table, in small tests too."""
    monkeypatch.setattr("fkd.core.svm.CHUNK_ROWS", 48)


def sample(rng, n=310, r=12):
    G = rng.normal(size=(n, r)) / np.sqrt(r)
    y = G @ rng.normal(size=r) * 2 + 5.0 + rng.standard_t(3, size=n)
    V = np.linalg.qr(rng.normal(size=(r, 5)))[0]
    return G, y, V


def moments_of(G, y):
    return Moments.from_rows(G, np.zeros((len(G), 1)), y)


def streamed(G, y, rows=100, **parts):
    """A source of blocks of so many rows."""

    def source():
        for start in range(0, len(G), rows):
            chosen = slice(start, start + rows)
            cut = {name: part[chosen] for name, part in parts.items()}
            yield RowBlock(G[chosen], y[chosen], **cut)

    return source


def shrunk(V, kept):
    kept = np.full(V.shape[1], kept)
    return Directions(V, 1 - kept, kept)


def solved(G, y, machines, **changes):
    settings = {"tol": 1e-6, "max_iter": 5000, **changes}
    return solve_machines(streamed(G, y), moments_of(G, y), machines, **settings)


def objective(G, y, machine, solution):
    """The objective by another road: in the coordinates of the fair features."""
    V, kept = machine.removed.V, machine.removed.kept
    along = V.T @ solution.beta
    square = solution.beta @ solution.beta - along @ along
    with np.errstate(divide="ignore", invalid="ignore"):
        square += np.where(kept > 0, along**2 / kept, 0.0).sum()
    error = np.abs(G @ solution.beta + solution.intercept - y)
    return square / 2 + machine.C * np.maximum(error - machine.epsilon, 0).sum()


REMOVALS = {
    "nothing": lambda V: Directions.whole(V[:, :0]),
    "a path": lambda V: Directions.whole(V[:, :3]),
    "a shrinkage": lambda V: shrunk(V, 0.05),
}


@pytest.mark.parametrize("removal", REMOVALS)
@pytest.mark.parametrize(("C", "epsilon"), [(0.1, 0.0), (1.0, 0.3), (5.0, 1.0)])
def test_a_machine_is_libsvm_on_the_fair_kernel(rng, removal, C, epsilon):
    G, y, V = sample(rng)
    removed = REMOVALS[removal](V)
    F = removed.features(G)
    oracle = SVR(kernel="precomputed", C=C, epsilon=epsilon, tol=1e-6).fit(F @ F.T, y)
    (found,) = solved(G, y, [Machine(C, removed, epsilon)], tol=1e-5)
    assert found.outcome is MachineOutcome.CERTIFIED
    assert_allclose(
        G @ found.beta + found.intercept, oracle.predict(F @ F.T), atol=1e-3 * np.ptp(y)
    )


@pytest.mark.parametrize("removal", REMOVALS)
@pytest.mark.parametrize("max_iter", [1, 7, 30])
def test_the_certificate_encloses_the_optimum_from_the_first_iteration(rng, removal, max_iter):
    G, y, V = sample(rng)
    machine = Machine(2.0, REMOVALS[removal](V), 0.2)
    (best,) = solved(G, y, [machine])
    (early,) = solved(G, y, [machine], max_iter=max_iter)
    assert early.dual <= best.primal * (1 + 1e-9)
    assert early.primal >= best.dual * (1 - 1e-9)
    assert early.gap > best.gap
    assert_allclose(early.primal, objective(G, y, machine, early), rtol=1e-9)


def test_weights_hold_nothing_of_what_is_removed(rng):
    G, y, V = sample(rng)
    machines = [Machine(1.0, Directions.whole(V[:, :3])), Machine(1.0, shrunk(V, 1e-300))]
    for machine, found in zip(machines, solved(G, y, machines, tol=1e-3), strict=True):
        assert np.abs(machine.removed.V.T @ found.beta).max() < 1e-12 * np.abs(found.beta).max()
        assert np.isfinite(found.gap)


def test_nothing_left_leaves_the_constant_that_the_loss_prefers(rng):
    G, y, _ = sample(rng)
    gone = Directions.whole(np.eye(G.shape[1]))
    (found,) = solved(G, y, [Machine(1.0, gone)], tol=1e-6)
    assert np.abs(found.beta).max() < 1e-9
    assert_allclose(found.primal, np.abs(y - np.median(y)).sum(), rtol=1e-6)


# Single and double precision; few and many features, for which a BLAS has different kernels.
@pytest.mark.parametrize(("tol", "max_iter"), [(1e-3, 80), (9e-5, 300)])
@pytest.mark.parametrize("r", [12, 60])
def test_a_machine_is_the_same_bits_alone_as_in_company(rng, r, tol, max_iter, monkeypatch):
    G, y, V = sample(rng, r=r)
    machines = [
        Machine(C, Directions.whole(V[:, :m]), epsilon)
        for C in (0.03, 0.3, 30.0)
        for m in (0, 1, 5)
        for epsilon in (0.0, 0.5)
    ]
    settings = {"tol": tol, "max_iter": max_iter}
    together = solved(G, y, machines, **settings)
    assert len({found.iterations for found in together}) > 1  # some left before others
    monkeypatch.setattr(solver_module, "STATE_BYTES", 4 * 8 * len(G))
    in_batches = solved(G, y, machines, **settings)
    for j, machine in enumerate(machines):
        (alone,) = solved(G, y, [machine], **settings)
        for other in (together[j], in_batches[j]):
            assert_array_equal(other.beta, alone.beta)
            assert (other.intercept, other.gap) == (alone.intercept, alone.gap)


def test_a_weight_counts_as_so_many_rows(rng):
    G, y, V = sample(rng, n=130)
    weights = rng.integers(0, 4, size=len(G)).astype(float)
    machine = Machine(0.7, Directions.whole(V[:, :2]), 0.1)
    source = streamed(G, y, weights=weights)
    (found,) = solve_machines(source, moments_of(G, y), [machine], tol=1e-6, max_iter=5000)
    repeated = np.repeat(np.arange(len(G)), weights.astype(int))
    (oracle,) = solved(G[repeated], y[repeated], [machine])
    assert_allclose(found.primal, oracle.primal, rtol=3e-6)
    assert_allclose(found.beta, oracle.beta, atol=5e-3)


@pytest.mark.parametrize("C", [0.1, 5.0])
def test_the_hinge_is_libsvm_s_classifier(rng, C):
    G, y, V = sample(rng)
    signs = np.where(y > 4.5, 1.0, -1.0)
    removed = Directions.whole(V[:, :2])
    F = removed.features(G)
    oracle = SVC(kernel="precomputed", C=C, tol=1e-6).fit(F @ F.T, signs)
    (found,) = solved(G, signs, [Machine(C, removed)], loss="hinge")
    assert found.outcome is MachineOutcome.CERTIFIED
    decisions = G @ found.beta + found.intercept
    assert_allclose(decisions, oracle.decision_function(F @ F.T), atol=5e-3)


@pytest.mark.parametrize("tol", [1e-3, 1e-5])
@pytest.mark.parametrize("epsilon", [0.0, 0.01])
def test_a_constant_target_is_met_by_the_constant(rng, epsilon, tol):
    G, _, V = sample(rng)
    (found,) = solved(
        G, np.full(len(G), 0.1), [Machine(1.0, Directions.whole(V), epsilon)], tol=tol
    )
    assert found.outcome is MachineOutcome.CERTIFIED
    assert_allclose(G @ found.beta + found.intercept, 0.1, atol=epsilon + 1e-5)


def test_a_tube_that_holds_all_targets_leaves_a_constant(rng):
    G, y, V = sample(rng)
    machine = Machine(1.0, Directions.whole(V[:, :1]), np.ptp(y))
    (found,) = solved(G, y, [machine], tol=1e-3)
    assert found.outcome is MachineOutcome.CERTIFIED
    assert np.ptp(G @ found.beta) < 1e-2 * np.ptp(y)
    assert found.iterations < 500


def test_single_precision_agrees_with_linear_svr_across_full_pieces(rng, monkeypatch):
    monkeypatch.undo()  # pieces as large as they are
    G, y, _ = sample(rng, n=5000, r=20)
    y = y - 5.0
    # LIBLINEAR has no free constant: of these rows it is next to 0.
    oracle = LinearSVR(C=0.1, epsilon=0.2, tol=1e-6, max_iter=100_000, fit_intercept=False)
    machine = Machine(0.1, Directions.whole(np.empty((20, 0))), 0.2)
    source = streamed(G.astype(np.float32), y, rows=2500)
    (found,) = solve_machines(source, moments_of(G, y), [machine], tol=1e-4)
    assert found.outcome is MachineOutcome.CERTIFIED
    oracle.fit(G, y - found.intercept)
    assert_allclose(G @ found.beta, oracle.predict(G), atol=1e-3 * np.ptp(y))


def test_a_missed_gap_is_reported_with_its_remedy(rng):
    G, y, V = sample(rng)
    machines = [Machine(C, Directions.whole(V[:, :2]), 0.1) for C in (0.1, 500.0)]
    found = solved(G, y, machines, tol=1e-3, max_iter=60)
    assert [f.outcome for f in found] == [MachineOutcome.CERTIFIED, MachineOutcome.MAX_ITER]
    named = list(zip(("C = 0.1", "C = 500"), found, strict=True))
    text = gap_message(named, 1e-3)
    assert f"gap of C = 500 must fall to 0.001, but was {found[1].gap:.2g} after 60 it" in text
    assert text.endswith(MachineOutcome.MAX_ITER.value)
    assert gap_message(named[:1], 1e-3) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"C": 0.0}, "C must be a finite number above 0, got 0.0"),
        ({"C": np.inf}, "C must be a finite number above 0, got inf"),
        ({"epsilon": -0.1}, "epsilon must not be negative, got -0.1"),
        ({"epsilon": np.nan}, "epsilon must be a finite number"),
    ],
)
def test_invalid_parameters_of_a_machine_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Machine(**{"C": 1.0, "removed": Directions.whole(np.empty((3, 0))), **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [({"tol": 0.0}, "tol must be a finite number above 0"), ({"max_iter": 0}, "max_iter must be")],
)
def test_a_bad_stopping_rule_is_refused(rng, change, message):
    G, y, V = sample(rng)
    with pytest.raises(ValueError, match=message):
        solved(G, y, [Machine(1.0, Directions.whole(V))], **change)


def test_moments_of_other_rows_are_refused(rng):
    G, y, V = sample(rng)
    with pytest.raises(ValueError, match=r"moments must .* 310 .* 300"):
        solve_machines(
            streamed(G, y), moments_of(G[:300], y[:300]), [Machine(1.0, Directions.whole(V))]
        )
