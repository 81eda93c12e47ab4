"""Clusters by class: arguments, limits, what is refused before any work."""

import gc
import sys

import pytest

from configs.cluster import ClusterConfig
from configs.errors import UserError
from configs.load import dump_config, load_config
from tasks.cluster.cluster import connect

PBS = "cluster.cluster_class=dask_jobqueue.PBSCluster"
LOCAL = "distributed.LocalCluster"


def _cluster(*overrides):
    return load_config("default", overrides).cluster


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["cluster.kind=slurm"], r"cluster\.kind.*now called 'cluster_class'"),
        (["cluster.adapt={maximum: 2}"], r"cluster\.adapt.*now called 'adapt_kwargs'"),
        (["cluster.clas=a"], r"cluster\.clas.*nearest"),
        (["cluster.adapt_kwargs={minimum: 3, maximum: 2}"], r"minimum at most maximum.*3 and 2"),
        (["cluster.adapt_kwargs={minimum: 0, maximum: 2}"], r"adapt_kwargs\.minimum"),
        (["cluster.adapt_kwargs.maximum=2", "cluster.workers=2"], r"given once"),
        ([PBS, "cluster.workers=2", "cluster.cluster_kwargs.n_workers=1"], r"given once"),
        ([PBS, "cluster.address=tcp://a:1"], r"cluster_class must not be given with address"),
        (["cluster.worker_timeout=0"], r"cluster\.worker_timeout"),
        (["cluster.address=http://a:1"], r"address must be tcp://HOST:PORT.*http://a:1"),
        (["cluster.address=127.0.0.1"], r"address must be tcp://HOST:PORT"),
    ],
)
def test_contradictions_are_refused_by_name(overrides, sentence):
    with pytest.raises(UserError, match=sentence):
        _cluster(*overrides)


@pytest.mark.parametrize(
    "kwargs",
    [
        "{env: {AWS_SECRET_ACCESS_KEY: hunter2hunter2}}",
        "{password: 987654321}",
        "{security: {MY_PWD: [1, 2]}}",
        "{auth: hunter2hunter2}",
        "{env: [{name: DB_PASSWORD, value: hunter2hunter2}]}",
        "{job_script_prologue: ['export TOKEN=hunter2hunter2']}",
        "{image: 'https://me:hunter2hunter2@registry/fkd'}",
    ],
)
def test_a_secret_in_the_arguments_is_refused_without_repeating_it(kwargs):
    with pytest.raises(
        UserError, match=r"cluster_kwargs.*must not contain a secret.*env:NAME"
    ) as e:
        _cluster(PBS, f"cluster.cluster_kwargs={kwargs}")
    assert "hunter2" not in str(e.value)


def test_a_reference_to_a_variable_is_resolved_when_the_cluster_starts(monkeypatch, settings):
    config = load_config("default", [PBS, "cluster.cluster_kwargs={env: {TOKEN: 'env:MY_TOKEN'}}"])
    assert "env:MY_TOKEN" in dump_config(config)
    monkeypatch.delenv("MY_TOKEN", raising=False)
    with pytest.raises(UserError, match="MY_TOKEN"), connect(config.cluster, settings):
        pass


@pytest.mark.parametrize(
    ("overrides", "most"),
    [
        ([], None),
        (["cluster.workers=3"], 3),
        ([PBS], 1),
        ([PBS, "cluster.cluster_kwargs.n_workers=4"], 4),
        ([PBS, "cluster.adapt_kwargs.maximum=7"], 7),
    ],
)
def test_how_many_workers_there_will_be(overrides, most):
    assert _cluster(*overrides).most_workers == most


def test_where_it_is_computed_does_not_decide_a_number():
    here = load_config("default").digest
    there = [PBS, "cluster.cluster_kwargs.queue=a", "cluster.adapt_kwargs.maximum=9"]
    assert load_config("default", there).digest == here
    assert load_config("default", ["cluster.blas_threads=2"]).digest != here


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("nowhere.Cluster", "cannot be imported.*No module"),
        ("distributed.LocalClutter", "cannot be imported"),
        ("slurm", "cannot be imported"),
        ("pathlib.Path", "not a subclass"),
        ("os.getcwd", "not a subclass"),
    ],
)
def test_a_class_that_is_no_dask_cluster_is_refused(path, sentence, settings):
    with (
        pytest.raises(UserError, match=rf"cluster\.cluster_class.*{sentence}"),
        connect(ClusterConfig(cluster_class=path), settings),
    ):
        pass


# dask-jobqueue leaves a cluster behind whose constructor has failed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("path", "kwargs"),
    [
        (LOCAL, {"dashbord": 1}),
        (LOCAL, {"protocol": "carrier-pigeon"}),
        (LOCAL, {"memory_limit": "lots"}),
        ("dask_jobqueue.PBSCluster", {"cores": 1}),  # without memory
        ("dask_jobqueue.PBSCluster", {"cores": 1, "memory": "1GB", "queu": "a"}),
    ],
)
def test_arguments_that_the_class_refuses_are_one_sentence(path, kwargs, settings):
    config = ClusterConfig(cluster_class=path, cluster_kwargs=kwargs, workers=1)
    with (
        pytest.raises(UserError, match=r"cluster\.cluster_kwargs") as caught,
        connect(config, settings),
    ):
        pass
    assert "\n" not in str(caught.value)
    del caught
    gc.collect()  # the warning about that cluster belongs to this test


def test_a_plain_scheduler_that_others_can_reach_is_refused(settings):
    config = ClusterConfig(
        cluster_class=LOCAL,
        cluster_kwargs={"host": "0.0.0.0", "processes": False, "protocol": "tcp"},
        workers=1,
    )
    with (
        pytest.raises(UserError, match=r"encrypted.*tcp://.*cluster\.insecure"),
        connect(config, settings),
    ):
        pass
    with connect(config.model_copy(update={"insecure": True}), settings) as client:
        assert client.submit(sum, [1, 2]).result() == 3


def test_pbs_jobs_are_written_as_dask_jobqueue_writes_them(settings, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")  # no qsub
    kwargs = {"cores": 1, "memory": "2GB", "queue": "short", "interface": "lo"}
    config = ClusterConfig(
        cluster_class="dask_jobqueue.PBSCluster", cluster_kwargs=kwargs, workers=1
    )
    with (
        pytest.raises(UserError, match=r"1 workers of .*PBSCluster cannot start.*qsub"),
        connect(config, settings),
    ):
        pass


def test_a_missing_package_is_named(settings, monkeypatch):
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    with (
        pytest.raises(UserError, match=r"cannot be imported.*install the package"),
        connect(ClusterConfig(cluster_class="dask_jobqueue.PBSCluster"), settings),
    ):
        pass
