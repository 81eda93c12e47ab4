"""The crimes file as UCI publishes it."""

from pathlib import Path

import numpy as np

from configs.errors import UserError
from fkd.problems.crimes import PREDICTORS, PROBLEM
from tasks.data.columns import Columns

_PLACE = ("state", "county", "community", "communityname", "fold")
# Columns with missing values stand between the predictors of UCI's file, after these.
_BETWEEN = {
    "AsianPerCap": "OtherPerCap",
    "PctSameState85": (
        "LemasSwornFT LemasSwFTPerPop LemasSwFTFieldOps LemasSwFTFieldPerPop LemasTotalReq "
        "LemasTotReqPerPop PolicReqPerOffic PolicPerPop RacialMatchCommPol PctPolicWhite "
        "PctPolicBlack PctPolicHisp PctPolicAsian PctPolicMinor OfficAssgnDrugUnits "
        "NumKindsDrugsSeiz PolicAveOTWorked"
    ),
    "PctUsePubTrans": "PolicCars PolicOperBudg LemasPctPolicOnPatr LemasGangUnitDeploy",
    "LemasPctOfficDrugUn": "PolicBudgPerPop",
}


def header() -> list[str]:
    """Return the 128 column names of the file, which has no header of its own."""
    names = list(_PLACE)
    for predictor in PREDICTORS:
        names += [predictor, *_BETWEEN.get(predictor, "").split()]
    return [*names, PROBLEM.target]


def read_communities(path: Path) -> Columns:
    """Return fold, predictors, target of all 1994 communities."""
    names = header()
    # Not UTF-8 by promise: names of places, which are not used, may hold any byte.
    rows = [line.split(",") for line in path.read_text(encoding="latin-1").split("\n") if line]
    odd = next((place for place, row in enumerate(rows) if len(row) != len(names)), None)
    if odd is not None or not rows:
        raise UserError(
            f"communities.data must have {len(names)} fields in every line, got another number in "
            f"line {(odd or 0) + 1}; fetch it again."
        )
    wanted = ("fold", *PREDICTORS, PROBLEM.target)
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    numbers = {name: np.array(columns[name], dtype=np.float64) for name in wanted}
    return Columns(numbers, {}, rows_read=len(rows))
