"""The same seed anywhere: workers, threads, order of completion change no bit."""

import pytest
from dask_process import threads
from soak_figures import keep
from sweep_jobs import shuffled
from sweep_sample import finite, numbers, same_numbers, sweep_config, undisturbed

from flows import fitting
from flows.fitting import fit_all
from tasks.select.study import open_study
from tasks.storage.settings import Settings


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """Exact and approximate kernels, two machines, computed one after another in this process."""
    return undisturbed(_config(), tmp_path_factory.mktemp("reference") / "home")


def _config(*overrides):
    approximation = "approximation: {kind: nystroem, landmarks: 60}"
    grid = f"grid: {{iterations: [0, 3], gamma: [0.02, 0.05]}}, {approximation}"
    methods = f"methods=[dummy, {{name: krr_fkd, {grid}}}, {{name: svr_fkd, {grid}}}]"
    return sweep_config(methods, *overrides)


def _computed(config, home):
    settings = Settings(home, None, None, None)
    assert fit_all([open_study(config, settings)]) == 0
    return open_study(config, settings)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "cluster",
    [
        "cluster={workers: 1}",
        "cluster={workers: 2}",
        threads(2),
    ],
)
def test_numbers_do_not_depend_on_the_number_or_kind_of_workers(cluster, reference, tmp_path):
    study = _computed(_config(cluster), tmp_path / "home")
    assert finite(study)
    assert same_numbers(study, reference)


@pytest.mark.timeout(600)
def test_numbers_do_not_depend_on_the_order_of_completion(reference, tmp_path, monkeypatch):
    monkeypatch.setattr(fitting, "run_job", shuffled)
    assert same_numbers(_computed(_config(), tmp_path / "home"), reference)


def test_another_seed_has_other_numbers(reference, tmp_path):
    assert not same_numbers(undisturbed(_config("seed=1"), tmp_path / "home"), reference)


def _exact(*overrides):
    """Exact kernels of every method that has one, on few splits."""
    methods = "methods=[{name: krr_fkd, grid: {iterations: [0, 18]}}, svr_fkd, krr_fkl, svr_inlp]"
    return sweep_config(methods, *overrides)


@pytest.fixture(scope="module")
def exact_reference(tmp_path_factory):
    """Exact kernels, computed one after another in this process."""
    return undisturbed(_exact(), tmp_path_factory.mktemp("exact") / "home")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("order", ["as submitted", "shuffled"])
@pytest.mark.parametrize(
    "cluster",
    [
        "{workers: 1}",
        "{workers: 2}",
        threads(2).removeprefix("cluster="),
    ],
)
def test_exact_kernels_have_the_same_bits_anywhere(
    cluster, order, exact_reference, tmp_path, monkeypatch
):
    if order == "shuffled":
        monkeypatch.setattr(fitting, "run_job", shuffled)
    study = _computed(_exact(f"cluster={cluster}"), tmp_path / "home")
    assert finite(study)
    assert same_numbers(study, exact_reference)
    keep("F13", f"{cluster}, {order}", fits_of_equal_bits=len(numbers(study)), differing=0)
