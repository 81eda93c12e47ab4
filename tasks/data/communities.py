"""The crimes file as UCI publishes it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from configs.errors import UserError
from fkd.core.arrays import Array
from fkd.problems.crimes import CRIMES, INCOMPLETE, PREDICTORS
from fkd.problems.declaration import Problem
from tasks.data.columns import Columns

_PLACE = ("state", "county", "community", "communityname", "fold")
_MISSING = "?"


def header() -> list[str]:
    """Return the 128 column names of the file, which has no header of its own."""
    names = list(_PLACE)
    for predictor in PREDICTORS:
        names += [predictor, *INCOMPLETE.get(predictor, ())]
    return [*names, CRIMES.target]


def read_communities(path: Path, problem: Problem = CRIMES) -> Columns:
    """Return fold, predictors, target of all 1994 communities; a missing number is NaN."""
    names = header()
    # Not UTF-8 by promise: names of places, which are not used, may hold any byte.
    rows = [line.split(",") for line in path.read_text(encoding="latin-1").split("\n") if line]
    odd = next((place for place, row in enumerate(rows) if len(row) != len(names)), None)
    if odd is not None or not rows:
        raise UserError(
            f"communities.data must have {len(names)} fields in every line, got another number in "
            f"line {(odd or 0) + 1}; fetch it again."
        )
    wanted = ("fold", *problem.numeric, problem.target)
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    numbers = {name: _numbers(columns[name]) for name in wanted}
    return Columns(numbers, {}, rows_read=len(rows))


def _numbers(fields: Sequence[str]) -> Array:
    return np.array(["nan" if one == _MISSING else one for one in fields], dtype=np.float64)
