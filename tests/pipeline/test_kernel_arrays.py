"""Kernel matrices as Dask arrays: values, names, what is made once, what is kept."""

import time
from uuid import uuid4

import dask
import dask.array as da
import numpy as np
import pytest
from dask_process import in_threads
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from threadpoolctl import threadpool_info

from fkd.core.kernels import Kernel, KernelColumns
from fkd.paper.algorithm2 import DualRidge, KernelRows, chunked_dual_path, dual_ridge
from tasks.cluster.cluster import connect
from tasks.cluster.workers import cluster_memory
from tasks.kernels.kernel_arrays import (
    KernelArrays,
    aligned,
    chunk_bytes,
    compute_array,
    is_kept,
    keep_what_fits,
    kernel_array,
)
from tasks.storage.settings import Settings

KERNEL = Kernel("rbf", 0.2)
KERNELS = [KERNEL, Kernel("laplacian", 0.3), Kernel("polynomial", 0.5), Kernel("linear")]


def here(array):
    """Compute an array in this thread."""
    return array.compute(scheduler="synchronous")


@pytest.fixture
def X(rng):
    return rng.normal(size=(130, 3)) + 2.0


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("chunks", [1000, 130, 64, 50, 13])
def test_an_array_is_the_kernel_matrix(X, kernel, chunks):
    K = kernel_array(kernel, X, chunks=chunks)
    assert K.shape == (130, 130)
    assert K.numblocks == (-(-130 // chunks),) * 2
    found = here(K)
    assert_allclose(found, kernel.gram(X), rtol=1e-12, atol=1e-12)
    # Above and below the diagonal stand the same numbers, not such that are close.
    i, j = np.triu_indices(130, k=chunks)
    assert_array_equal(found[i, j], found[j, i])


@pytest.mark.parametrize("as_dask", [False, True])
def test_rows_against_others_in_chunks_of_two_lengths(X, rng, as_dask):
    Z = rng.normal(size=(41, 3))
    rows = da.from_array(X, chunks=(31, 2)) if as_dask else X
    K = kernel_array(KERNEL, rows, Z, chunks=(50, 41))
    assert K.chunks == ((50, 50, 30), (41,))
    assert_allclose(here(K), KERNEL(X, Z), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_of_indicators_are_multiplied_as_sparse_arrays(rng, dtype, monkeypatch):
    codes = rng.integers(40, size=(130, 2))
    X = np.hstack([np.eye(40)[codes[:, 0]], np.eye(40)[codes[:, 1]], rng.normal(size=(130, 1))])
    seen, call = [], KernelColumns.__call__

    def noting(self, rows, out=None):
        seen.append(isinstance(rows, csr_array))
        return call(self, rows, out)

    monkeypatch.setattr(KernelColumns, "__call__", noting)
    found = here(kernel_array(KERNEL, X, chunks=50, dtype=dtype))
    assert_allclose(found, KERNEL.gram(X), atol=1e-12 if dtype is np.float64 else 1e-5)
    assert seen == [True] * 6


def test_single_precision_halves_the_chunks(X):
    single, double = (kernel_array(KERNEL, X, chunks=40, dtype=t) for t in (np.float32, float))
    found = here(single)
    assert found.dtype == np.float32
    assert_allclose(found, here(double), atol=1e-5)
    assert np.abs(found - here(double)).max() > 0
    assert 2 * chunk_bytes(single) == chunk_bytes(double)


def test_every_pair_of_chunks_is_computed_once(X):
    made = []

    def counting(A, B):
        made.append(len(A) * len(B))
        return KERNEL(A, B)

    K = kernel_array(Kernel(counting), X, chunks=50)
    B = np.ones((130, 2))
    passes = KernelArrays(K, K, np.arange(130), here)
    (found,) = passes.products([B])
    assert_allclose(found, KERNEL.gram(X) @ B)
    assert sum(made) == chunk_bytes(K) / 8 == 50 * 50 * 2 + 30 * 30 + 50 * 50 + 2 * 50 * 30


def test_names_depend_on_the_content(X):
    K = kernel_array(KERNEL, X, chunks=50)
    assert kernel_array(Kernel("rbf", 0.2), X.copy(), chunks=50).name == K.name
    moved = X.copy()
    moved[129, 2] += 1e-9
    others = [
        kernel_array(Kernel("rbf", 0.3), X, chunks=50),
        kernel_array(KERNEL, moved, chunks=50),
        kernel_array(KERNEL, X, X, chunks=50),
        kernel_array(KERNEL, X, chunks=50, dtype=np.float32),
        kernel_array(KERNEL, X, chunks=40),
    ]
    assert len({K.name, *(other.name for other in others)}) == 6
    assert "kernel" in K.name  # as which the dashboard shows its tasks


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kernel": Kernel("precomputed")}, "precomputed"),
        ({"dtype": int}, "float64 or float32"),
        ({"chunks": 0}, "chunks"),
        ({"chunks": (50, 40)}, "square"),
        ({"X": np.ones(5)}, "two-dimensional"),
        ({"X": np.ones((5, 0))}, "two-dimensional"),
        ({"Z": np.ones((5, 2))}, r"as many columns as X \(3\), got 2"),
        ({"threads": 0}, "threads"),
    ],
)
def test_invalid_arguments_are_refused(X, arguments, message):
    with pytest.raises(ValueError, match=message):
        kernel_array(**{"kernel": KERNEL, "X": X, **arguments})


def test_nan_in_a_row_is_an_error(X):
    X[77, 1] = np.nan
    with pytest.raises(ValueError, match="rows must be finite"):
        here(kernel_array(KERNEL, X, chunks=50))


@pytest.mark.parametrize("offset", range(1, 16, 3))
@pytest.mark.parametrize("transposed", [False, True])
def test_unaligned_arrays_give_the_same_bits(rng, offset, transposed):
    A, B = rng.normal(size=(100, 109)), rng.normal(size=(109 if not transposed else 100, 2))
    memory = np.empty(A.nbytes + 64, dtype=np.uint8)
    moved = memory[offset : offset + A.nbytes].view(np.float64).reshape(A.shape)
    moved[...] = A
    here, there = (A.T, moved.T) if transposed else (A, moved)
    (found,) = aligned(there)
    assert_array_equal(found @ B, here @ B)
    assert found.flags.aligned
    assert found.flags.f_contiguous == here.flags.f_contiguous


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("chunks", [300, 64, 37])
def test_passes_over_chunks_equal_passes_over_tiles(rng, chunks, dtype):
    X, S = rng.normal(size=(300, 4)), rng.normal(size=(300, 2))
    landmarks = np.sort(rng.choice(300, size=40, replace=False))
    passes, tiles = both(X, landmarks, chunks, dtype)
    F, z = rng.normal(size=(300, 3)), rng.normal(size=(40, 2))
    close = {"rtol": 1e-9, "atol": 1e-9} if dtype is np.float64 else {"rtol": 1e-3, "atol": 1e-3}
    for F_i in (F, F[:, :0]):
        pairs = zip(passes.landmark_system(S, F_i), tiles.landmark_system(S, F_i), strict=True)
        for found, expected in pairs:
            assert_allclose(found, expected, **close)
        pairs = zip(
            passes.landmark_products([z, z[:, :1]], F_i),
            tiles.landmark_products([z, z[:, :1]], F_i),
            strict=True,
        )
        for found, expected in pairs:
            assert_allclose(found, expected, **close)
    for name in ("products", "landmark_adjoints"):
        pairs = zip(getattr(passes, name)([S, F]), getattr(tiles, name)([S, F]), strict=True)
        for found, expected in pairs:
            assert_allclose(found, expected, **close)
    assert passes.landmark_adjoints([]) == []


def both(X, landmarks, chunks, dtype=np.float64):
    """The same kernel matrix as arrays, as tiles."""
    K = kernel_array(KERNEL, X, chunks=chunks, dtype=dtype)
    K_nq = kernel_array(KERNEL, X, X[landmarks], chunks=(chunks, len(landmarks)), dtype=dtype)
    passes = KernelArrays(K, K_nq, landmarks, here)
    return passes, KernelRows(KERNEL, X, landmarks, chunks)


def test_the_bits_of_a_panel_do_not_depend_on_other_panels(rng):
    X, B = rng.normal(size=(300, 4)), rng.normal(size=(300, 7))
    passes, _ = both(X, np.arange(0, 300, 7), 64)
    for name in ("products", "landmark_adjoints"):
        (alone,) = getattr(passes, name)([B[:, 1:3]])
        together = getattr(passes, name)([B[:, :1], B[:, 1:3], B])
        assert_array_equal(together[1], alone)


def test_ridge_regression_on_chunks_equals_that_on_tiles(rng):
    X = rng.normal(size=(300, 4))
    S, y = X[:, :1] ** 2, np.sin(X[:, 0]) + X[:, 1]
    passes, tiles = both(X, np.sort(rng.choice(300, size=40, replace=False)), 64)
    wanted = [DualRidge(m, alpha, m > 0) for m in (0, 3) for alpha in (0.1, 1.0)]
    found = []
    for K in (passes, tiles):
        path = chunked_dual_path(K, S, ridge=0.5, iterations=3)
        weights = dual_ridge(K, path, y, wanted)
        found.append([KERNEL.gram(X) @ w.coef + w.intercept for w in weights])
    assert_allclose(found[0], found[1], atol=1e-7)


@pytest.mark.parametrize("threads", [1, 2])
def test_tasks_compute_with_the_given_number_of_threads(X, threads):
    heard = []

    def noting(A, B):
        heard.extend(p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas")
        return KERNEL(A, B)

    here(kernel_array(Kernel(noting), X, chunks=50, threads=threads))
    assert set(heard) == {threads}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    settings = Settings(tmp_path_factory.mktemp("arrays"), None, None, None)
    config = in_threads(workers=2, memory_limit="2GiB")
    with connect(config, settings) as found:
        yield found


def test_what_fits_is_kept_in_order(client, X):
    arrays = [kernel_array(KERNEL, X, X[:20], chunks=(50, 20)), kernel_array(KERNEL, X, chunks=50)]
    sizes = [chunk_bytes(K) for K in arrays]

    def which(memory):
        return [is_kept(K) for K in keep_what_fits(client, arrays, memory)]

    assert which(2 * sum(sizes)) == [True, True]
    assert which(2 * sum(sizes) - 1) == [True, False]
    assert which(2 * sizes[0] - 1) == [False, False]
    assert which(None) == [False, False]
    assert [is_kept(K) for K in arrays] == [False, False]


def test_kept_chunks_are_computed_once_and_others_in_every_pass(client, X, tmp_path):
    def counting(A, B):
        (tmp_path / uuid4().hex).touch()
        return KERNEL(A, B)

    K = kernel_array(Kernel(counting), X, chunks=50)
    (held,) = keep_what_fits(client, [K], cluster_memory(client))
    assert held.chunks == K.chunks
    assert held.name == K.name

    def compute(array):
        return compute_array(client, array, retries=0, time_limit=60.0)

    expected = KERNEL.gram(X) @ X
    for _ in range(3):
        (found,) = KernelArrays(held, held, np.arange(130), compute).products([X])
        assert_allclose(found, expected)
    assert len(list(tmp_path.iterdir())) == 6
    # Chunks of another size: those above may still be there under their names.
    K = kernel_array(Kernel(counting), X, chunks=40)
    (found,) = KernelArrays(K, K, np.arange(130), compute).products([X])
    assert_allclose(found, expected)
    assert len(list(tmp_path.iterdir())) == 6 + 10


def test_a_pass_longer_than_the_time_limit_is_an_error(client, monkeypatch):
    monkeypatch.setattr("tasks.kernels.kernel_arrays._LOOK_SECONDS", 0.05)
    slow = da.ones(4, chunks=4).map_blocks(lambda block: time.sleep(2) or block)
    with pytest.raises(TimeoutError, match=r"longer than cluster.time_limit \(0.1 s\)"):
        compute_array(client, slow, retries=0, time_limit=0.1)


def test_an_error_in_a_chunk_is_raised_by_the_pass(client, X):
    X[3, 0] = np.inf
    with pytest.raises(ValueError, match="rows must be finite"):
        compute_array(client, kernel_array(KERNEL, X, chunks=50), retries=0, time_limit=60.0)


def test_users_need_no_client(X):
    K = kernel_array(KERNEL, X, chunks=50)
    with dask.config.set(scheduler="threads"):
        assert_allclose((K @ X).compute(), KERNEL.gram(X) @ X)
