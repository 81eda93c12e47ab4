"""`fkd reproduce` on the command line."""

import time
from collections.abc import Sequence
from typing import Any

from configs.errors import UserError, check_name
from configs.load import apply_overrides, parse_config
from configs.reproduction import (
    READING_KEYS,
    experiment_names,
    is_network,
    parse_experiment,
    quick,
    read_experiment,
    read_otherwise,
    without,
)
from configs.run import ClusterConfig
from fkd.methods.declaration import Method
from flows.progress import watcher
from flows.reproduction import IncompleteError
from tasks.servers.prefect import prefect_server
from tasks.storage.settings import ensure_writable, read_settings

_GROUPS = ("neural",)


def reproduce_paper(
    names: Sequence[str],
    leave_out: Sequence[str] = (),
    overrides: Sequence[str] = (),
    *,
    is_quick: bool = False,
) -> None:
    """Compute and judge experiments, then print their verdicts with the path of the page."""
    start = time.monotonic()
    cluster, reading = _settings(overrides)
    trees = chosen_trees(names, leave_out, is_quick=is_quick)
    trees, unread = _read(trees, reading) if reading else (trees, [])
    for tree in trees:
        parse_experiment(tree)  # faults are told before any work
    settings = read_settings()
    ensure_writable(settings.home)
    watcher().say(f"{len(trees)} experiments of the paper (state in {settings.home})")
    for sentence in unread:
        watcher().say(f"left out: {sentence}")
    with prefect_server(settings):
        # Prefect reads its settings when it is first imported: only now are they in force.
        from flows.reproduction import reproduce

        try:
            found, problem = reproduce(trees, cluster), None
        except IncompleteError as error:
            found, problem = error.found, error
    found.show(time.monotonic() - start)
    if problem is not None:
        raise problem


def chosen_trees(
    names: Sequence[str], leave_out: Sequence[str] = (), *, is_quick: bool = False
) -> list[dict[str, Any]]:
    """Return the experiments that are meant, as they are to be run."""
    return [_tree(name, leave_out, is_quick=is_quick) for name in _chosen(names)]


def _settings(overrides: Sequence[str]) -> tuple[ClusterConfig, dict[str, Any]]:
    """Return where trials are computed, which keys of the data are read otherwise."""
    tree = apply_overrides({}, overrides)
    if idle := sorted(set(tree) - {"cluster", "data"}):
        raise UserError(
            "--set of fkd reproduce takes keys of cluster, or of data to read it otherwise "
            f"({', '.join(READING_KEYS)}), got {', '.join(idle)}; the experiments are what their "
            "files say."
        )
    reading = tree.pop("data", {})
    if not isinstance(reading, dict):
        raise UserError(f"--set data takes a key of it, such as data.drop=[], got {reading!r}.")
    # As a run of its own, so that faults in it are told as everywhere.
    return parse_config({"methods": ["dummy"], **tree}, "--set").cluster, reading


def _read(
    trees: Sequence[dict[str, Any]], reading: dict[str, Any]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the experiments under another reading, why the others have none."""
    found, unread = list[dict[str, Any]](), list[str]()
    for tree in trees:
        try:
            found.append(read_otherwise(tree, reading))
        except UserError as error:
            unread.append(str(error))
    if not found:
        raise UserError(" ".join(dict.fromkeys(unread)))
    return found, unread


def _chosen(names: Sequence[str]) -> list[str]:
    """Return the experiments that are meant, each once, in the given order."""
    known = experiment_names()
    meant = [name for given in names for name in (known if given == "all" else (given,))]
    return list(dict.fromkeys(meant))


def _tree(name: str, leave_out: Sequence[str], *, is_quick: bool) -> dict[str, Any]:
    """Return one experiment as it is to be run."""
    for group in leave_out:
        try:
            check_name(group, _GROUPS, key="--without")
        except ValueError as error:
            raise UserError(f"{error}.") from None

    def reason(declared: Method) -> str | None:
        if is_network(declared) and "neural" in leave_out:
            return "the networks were left out by --without neural"
        if declared.extra is not None and declared.extra.missing():
            return f"{declared.title} needs {', '.join(declared.extra.missing())}: `make neural`"
        return None

    tree = without(read_experiment(name), reason)
    return quick(tree) if is_quick else tree
