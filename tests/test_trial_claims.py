"""Two homes that record the same trials: killed or stopped at any call, one run of each."""

import pytest
from claim_sample import EXPERIMENT, check_recorded, home_of, record
from hypothesis import given, settings
from hypothesis import strategies as st
from mlflow.entities import Run, RunData, RunInfo, RunTag, ViewType
from mlflow.entities.model_registry import RegisteredModel
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_ALREADY_EXISTS
from mlflow.tracking import MlflowClient
from tracking_server import warm_mlflow

from tasks.adapters import trial_claims
from tasks.adapters.timed_client import TimedClient
from tasks.adapters.trial_claims import CLAIM, key_of, settle

TRIALS = 2


class KilledError(BaseException):
    """The end of a process, which nothing catches."""


@pytest.fixture
def homes(tmp_path, tmp_path_factory, monkeypatch):
    """Two homes with one database, which give each other up soon."""
    monkeypatch.setattr(trial_claims, "SILENT_SECONDS", 0.05)
    monkeypatch.setattr(trial_claims, "_POLL_SECONDS", 0.02)
    database = warm_mlflow(tmp_path / "server", tmp_path_factory.getbasetemp())
    return [home_of(tmp_path, name, f"sqlite:///{database}") for name in ("one", "other")]


@pytest.fixture
def before_call(monkeypatch):
    """Have something done before the n-th call to the server, whichever it is, once."""
    real = TimedClient.__getattr__

    def arm(number, act):
        calls = []

        def counting(self, name):
            def call(*values, **named):
                calls.append(name)
                if len(calls) == number:
                    act()
                return real(self, name)(*values, **named)

            return call

        monkeypatch.setattr(TimedClient, "__getattr__", counting)
        return calls

    return arm


def _kill():
    raise KilledError


def test_a_name_that_is_read_while_it_is_removed_stands_for_nothing(homes, monkeypatch):
    """The server has found the name, then its tags are gone with it."""
    real, read = TimedClient.__getattr__, []

    def reading(self, name):
        def call(*values, **named):
            if name == "create_registered_model" and not read:
                raise MlflowException("it is there", RESOURCE_ALREADY_EXISTS)
            if name == "get_registered_model" and not read:
                read.append(name)
                return RegisteredModel(values[0])
            return real(self, name)(*values, **named)

        return call

    monkeypatch.setattr(TimedClient, "__getattr__", reading)
    assert record(homes[0], "removed", TRIALS) == TRIALS
    assert read
    check_recorded(homes[0], "removed", TRIALS)


@pytest.mark.stack
def test_whoever_is_killed_at_any_call_is_in_nobodys_way(homes, before_call):
    """At every call in turn; then the other home records, then the first again."""
    one, other = homes
    number, ended = 0, False
    while not ended:
        number += 1
        identity = f"killed{number:02d}"
        calls = before_call(number, _kill)
        try:
            record(one, identity, TRIALS)
            ended = True
        except KilledError:
            assert len(calls) == number
        before_call(-1, _kill)
        record(other, identity, TRIALS)
        found = check_recorded(other, identity, TRIALS)
        assert record(one, identity, TRIALS) == record(other, identity, TRIALS) == 0
        assert check_recorded(one, identity, TRIALS) == found
    assert number > 20  # a whole recording


@pytest.mark.stack
def test_whoever_is_killed_at_any_call_goes_on_where_it_was(homes, before_call):
    one = homes[0]
    number, ended = 0, False
    while not ended:
        number += 1
        identity = f"again{number:02d}"
        before_call(number, _kill)
        try:
            record(one, identity, TRIALS)
            ended = True
        except KilledError:
            before_call(-1, _kill)
            record(one, identity, TRIALS)
        check_recorded(one, identity, TRIALS)
    client = MlflowClient(one.mlflow_tracking_uri)
    place = client.get_experiment_by_name(EXPERIMENT).experiment_id
    assert (
        client.search_runs([place], run_view_type=ViewType.DELETED_ONLY) == []
    )  # none was made in vain


@pytest.mark.stack
def test_whoever_is_stopped_at_any_call_finds_the_other_ones_runs(homes, before_call):
    """The other home gives it up, records all, and then the first wakes."""
    one, other = homes
    number, reached = 0, True
    while reached:
        number += 1
        identity = f"stopped{number:02d}"

        def overtake(identity=identity):
            before_call(-1, _kill)
            record(other, identity, TRIALS)

        calls = before_call(number, overtake)
        record(one, identity, TRIALS)
        reached = len(calls) >= number
        check_recorded(one, identity, TRIALS)


def _run(number, batch, key):
    info = RunInfo(f"{number:04d}", "0", "", "RUNNING", 0, None, "active")
    return Run(info, RunData(tags=[RunTag(CLAIM, f"{batch} {key}")]))


_RUNS = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz")), max_size=12)
_ENTRIES = st.lists(st.sampled_from(["a", "b", "c", "void a", "void b"]), max_size=6)


@given(_RUNS, _ENTRIES, _ENTRIES)
@settings(deadline=None)
def test_what_entries_have_decided_later_ones_never_change(claims, entries, more):
    runs = [_run(i, *claim) for i, claim in enumerate(claims)]
    found, later = settle(entries, runs), settle([*entries, *more], reversed(runs))
    assert found.taken.items() <= later.taken.items()
    assert set(map(id, found.lost)) <= set(map(id, later.lost))
    everywhere = [*later.taken.values(), *later.lost, *later.pending]
    assert sorted(map(id, everywhere)) == sorted(map(id, runs))
    assert {key: key_of(run) for key, run in later.taken.items()} == {k: k for k in later.taken}
    decided = {}
    for entry in entries:
        decided.setdefault(entry.removeprefix("void "), entry)
    for run, (batch, key) in zip(runs, claims, strict=True):
        if decided.get(batch) == batch:
            assert key in found.taken
        elif batch in decided:  # void, whatever was entered later
            assert any(run is one for one in later.lost)
        else:
            assert any(run is one for one in found.pending)
