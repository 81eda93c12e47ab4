"""The limits that a champion must keep on the held-out rows."""

from collections.abc import Mapping

from configs.errors import UserError
from fkd.measures import REPORTED
from tasks.study.judgement import Judgement


class GateError(UserError):
    """The selected model breaks a limit: its run has failed though everything was computed."""

    exit_code = 3


def verdict(judgement: Judgement, gate: Mapping[str, float], refused: tuple[str, ...] = ()) -> str:
    """Return what the gate says of a model, as it is kept with it, with other reasons against."""
    if not gate and not refused:
        return "no gate"
    broken = [*broken_limits(judgement, gate), *refused]
    return f"refused: {'; '.join(broken)}" if broken else "passed"


def broken_limits(judgement: Judgement, gate: Mapping[str, float]) -> list[str]:
    """Return one sentence per limit that the held-out rows break, or leave undecided."""
    return [
        f"{measure} on {column} is {found[measure][0]:.4f}, above the limit {limit:g}"
        if measure in found
        else f"{measure} on {column} is undefined ({REPORTED[measure].undefined}), so the "
        f"limit {limit:g} cannot be checked"
        for column, found in judgement.held_out.measures.items()
        for measure, limit in gate.items()
        if measure not in found or found[measure][0] > limit
    ]
