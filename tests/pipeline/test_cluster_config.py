"""Kinds of clusters in a configuration: what each takes, what it refuses, what decides numbers."""

import sys

import pytest

from configs.errors import UserError
from configs.load import load_config
from configs.run import ClusterConfig, SlurmConfig
from tasks.cluster.cluster import connect
from tasks.cluster.slurm import queue_state

PODS = "cluster={kind: kubernetes, kubernetes: {image: registry.example/fkd:1}}"


def _cluster(*overrides):
    return load_config("default", overrides).cluster


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["cluster.kind=slrum"], r"cluster\.kind.*slurm"),
        (["cluster.kind=slurm", "cluster.slurm.partitoin=a"], r"cluster\.slurm\.partitoin"),
        (["cluster.slurm.partition=a"], r"slurm must be given only when kind is 'slurm'"),
        (["cluster.kind=slurm", "cluster.slurm.partition=a b"], r"one word, got 'a b'"),
        (["cluster.kind=slurm", "cluster.slurm.walltime='90'"], r"HH:MM:SS"),
        (["cluster.kind=slurm", "cluster.slurm.walltime='00:59:59'"], r"at least time_limit"),
        (["cluster.kind=slurm", "cluster.slurm.memory=4 gigs"], r"a size such as 4GiB"),
        (["cluster.kind=slurm", 'cluster.slurm.prologue=["a\\nb"]'], r"one line"),
        (["cluster.kind=kubernetes"], r"kubernetes \(at least its image\)"),
        (["cluster.kubernetes.image=a"], r"exactly when kind is 'kubernetes'"),
        ([PODS, "cluster.kubernetes.namespace=Fkd_1"], r"lower-case"),
        (["cluster.adapt={minimum: 3, maximum: 2}"], r"minimum at most maximum, got 3 and 2"),
        (["cluster.adapt={minimum: 0, maximum: 2}"], r"cluster\.adapt\.minimum"),
        (["cluster.adapt.maximum=2", "cluster.workers=2"], r"give one of them"),
        (["cluster.adapt.maximum=2", "cluster.kind=threads"], r"whose workers we start"),
        (["cluster.worker_wait=0"], r"cluster\.worker_wait"),
    ],
)
def test_what_a_kind_does_not_take_is_refused(overrides, sentence):
    with pytest.raises(UserError, match=sentence):
        _cluster(*overrides)


@pytest.mark.parametrize(
    ("walltime", "seconds"),
    [("00:30:00", 1800), ("36:00:01", 129601), ("2-01:00:00", 176400), (43200, 43200)],
)
def test_walltimes_are_read_as_slurm_does(walltime, seconds):
    assert SlurmConfig(walltime=walltime).seconds == seconds


def test_an_unquoted_time_is_read_as_it_was_meant():
    asked = ["cluster.kind=slurm", "cluster.slurm.walltime=12:30:05"]
    assert _cluster(*asked).slurm.walltime == "12:30:05"


@pytest.mark.parametrize(
    ("overrides", "most"),
    [
        ([], None),
        (["cluster.workers=3"], 3),
        (["cluster.kind=slurm"], 1),
        ([PODS], 1),
        (["cluster.kind=slurm", "cluster.adapt.maximum=7"], 7),
    ],
)
def test_how_many_workers_there_will_be(overrides, most):
    assert _cluster(*overrides).most_workers == most


def test_where_it_is_computed_does_not_decide_a_number():
    here = load_config("default").digest
    there = ["cluster.kind=slurm", "cluster.slurm.partition=a", "cluster.adapt.maximum=9"]
    assert load_config("default", there).digest == here
    assert load_config("default", [PODS, "cluster.worker_wait=9"]).digest == here
    assert load_config("default", ["cluster.blas_threads=2"]).digest != here


def test_a_file_says_only_what_its_kind_needs():
    plain = load_config("default").model_dump(mode="json")["cluster"]
    assert not {"slurm", "kubernetes", "adapt"} & set(plain)
    asked = ["cluster.kind=slurm", "cluster.adapt.maximum=2"]
    plain = load_config("default", asked).model_dump(mode="json")["cluster"]
    assert plain["slurm"]["walltime"] == "04:00:00"
    assert plain["adapt"] == {"minimum": 1, "maximum": 2}


def test_a_machine_without_slurm_says_so(settings, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with (
        pytest.raises(UserError, match=r"no sbatch on this machine's PATH; start the run on a log"),
        connect(ClusterConfig(kind="slurm"), settings),
    ):
        pass


def test_a_missing_package_is_named_with_its_extra(settings, monkeypatch):
    monkeypatch.setitem(sys.modules, "dask_jobqueue.slurm", None)
    with (
        pytest.raises(UserError, match=r"dask-jobqueue.*pip install 'fkd\[slurm\]'"),
        connect(ClusterConfig(kind="slurm"), settings),
    ):
        pass


def test_a_cluster_without_a_queue_waits_for_no_job():
    assert queue_state(None) == ""
