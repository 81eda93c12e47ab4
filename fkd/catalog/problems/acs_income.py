"""Yearly income of working adults in the American Community Survey; sensitive is age."""

from typing import TYPE_CHECKING

from fkd.catalog.problems.census_columns import EXTRA, LIMITS, LIMITS_OF_USE, RENAMED, SOURCE, SPLIT
from fkd.catalog.problems.problem_declaration import Problem, RowFilter

if TYPE_CHECKING:
    import pandas as pd


def working_adults(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Return the rows that folktables counts to ACSIncome."""
    from folktables.acs import adult_filter  # its import costs half a second

    kept: pd.DataFrame = adult_filter(frame)
    return kept


INCOME_DATASHEET = f"""\
# ACSIncome, continuous

{SOURCE}
- Target: PINCP, total income of the past 12 months in dollars. Sensitive: AGEP, age in years.
- Rows: AGEP > 16, PINCP > 100, WKHP > 0, PWGTP >= 1.
- Inputs: COW, SCHL, MAR, OCCP, POBP, RELP, SEX, RAC1P as categories (a missing value is a level
  of its own); WKHP, hours worked per week, as a number.
{LIMITS_OF_USE}"""

ACS_INCOME = Problem(
    name="acs_income",
    title="ACS income",
    target="PINCP",
    target_unit="dollars",
    words={"PINCP": "yearly income", "AGEP": "age", "rows": "persons"},
    sensitive=("AGEP",),
    sensitive_options=("AGEP", "WKHP"),
    numeric=("AGEP", "WKHP"),
    categorical=("COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "SEX", "RAC1P"),
    scale="minmax",
    sources=("census", "synthetic"),
    datasheet=INCOME_DATASHEET,
    extra=EXTRA,
    rows=RowFilter(
        columns=("AGEP", "PINCP", "WKHP", "PWGTP"),
        keep=working_adults,
        reason="not AGEP > 16, PINCP > 100, WKHP > 0, PWGTP >= 1",
    ),
    limits=LIMITS,
    renamed=RENAMED,
    split=SPLIT,
)
