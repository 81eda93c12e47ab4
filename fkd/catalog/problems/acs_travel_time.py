"""Minutes to work of employed adults in the American Community Survey; sensitive is age."""

from typing import TYPE_CHECKING

from fkd.catalog.problems.census_columns import EXTRA, LIMITS, LIMITS_OF_USE, RENAMED, SOURCE, SPLIT
from fkd.catalog.problems.problem_declaration import Problem, RowFilter

if TYPE_CHECKING:
    import pandas as pd


def employed_adults(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Return the rows that folktables counts to ACSTravelTime."""
    from folktables.acs import travel_time_filter  # its import costs half a second

    kept: pd.DataFrame = travel_time_filter(frame)
    return kept


TRAVEL_TIME_DATASHEET = f"""\
# ACSTravelTime, continuous

{SOURCE}
- Target: JWMNP, minutes from home to work. Sensitive: AGEP, age in years.
- Rows: AGEP > 16, PWGTP >= 1, ESR = 1 (at work). Who works at home has no travel time; folktables
  counts those rows as short travel, a regression drops them.
- Inputs: SCHL, MAR, SEX, DIS, ESP, MIG, RELP, RAC1P, PUMA, ST, CIT, OCCP, JWTR, POWPUMA as
  categories (a missing value is a level of its own; ST is left out where it is constant); POVPIP,
  income relative to the poverty line in percent, as a number, missing = 0 as in folktables.
{LIMITS_OF_USE}"""

ACS_TRAVEL_TIME = Problem(
    name="acs_travel_time",
    title="ACS travel time",
    target="JWMNP",
    target_unit="minutes",
    words={"JWMNP": "minutes to work", "AGEP": "age", "rows": "persons"},
    sensitive=("AGEP",),
    sensitive_options=("AGEP", "POVPIP"),
    numeric=("AGEP", "POVPIP"),
    categorical=(
        *("SCHL", "MAR", "SEX", "DIS", "ESP", "MIG", "RELP", "RAC1P", "PUMA", "ST"),
        *("CIT", "OCCP", "JWTR", "POWPUMA"),
    ),
    scale="minmax",
    sources=("census", "synthetic"),
    datasheet=TRAVEL_TIME_DATASHEET,
    fills={"POVPIP": 0.0},
    extra=EXTRA,
    rows=RowFilter(
        columns=("AGEP", "PWGTP", "ESR"),
        keep=employed_adults,
        reason="not AGEP > 16, PWGTP >= 1, ESR = 1",
    ),
    target_absent="no travel time: works at home",
    limits=LIMITS,
    renamed=RENAMED,
    split=SPLIT,
)
