"""Income and travel time of persons in the American Community Survey."""

from fkd.problems.declaration import Problem, RowFilter

# Checked with the 1-Year files of 2018. Names of other years come from other readers of these files
# and are not checked. Codes are not translated.
RENAMED = {
    "RELP": ("RELSHIPP", "REL"),  # RELSHIPP from 2019, REL until 2009, each with other codes
    "JWTR": ("JWTRNS",),  # from 2019
    "ST": ("STATE",),  # from 2023
}

# Files over several years have one column per revision of a classification. In each row all but one
# of them are -9 or "N.A.".
SPLIT = {
    "PUMA": ("PUMA00", "PUMA10", "PUMA20"),
    "POWPUMA": ("POWPUMA00", "POWPUMA10", "POWPUMA20"),
    "OCCP": ("OCCP02", "OCCP10", "OCCP12"),
    "POBP": ("POBP05", "POBP12"),
}

# Wide enough for the codes of all years. Other values mean a wrong or damaged file.
LIMITS = {
    "AGEP": (0.0, 120.0),
    "PWGTP": (0.0, 20_000.0),
    "PINCP": (-100_000.0, 20_000_000.0),
    "WKHP": (1.0, 99.0),
    "JWMNP": (1.0, 300.0),
    "POVPIP": (0.0, 501.0),
    "ESR": (1.0, 6.0),
    "SEX": (1.0, 2.0),
    "MAR": (1.0, 5.0),
    "RAC1P": (1.0, 9.0),
    "CIT": (1.0, 5.0),
    "SCHL": (1.0, 24.0),
    "COW": (1.0, 9.0),
    "DIS": (1.0, 2.0),
    "MIG": (1.0, 3.0),
    "ESP": (1.0, 8.0),
    "RELP": (0.0, 38.0),
    "JWTR": (1.0, 12.0),
    "ST": (1.0, 78.0),
}

EXTRA = ("PWGTP", "ST", "PUMA", "year")

_OPTIONS = ("states", "year", "horizon", "labels", "faulty")
SOURCES = {"census": _OPTIONS, "synthetic": (*_OPTIONS, "synthetic")}

SOURCE = """\
One row is one person who answered the American Community Survey: the Public Use Microdata Sample
of the U.S. Census Bureau (public domain), https://www.census.gov/programs-surveys/acs/microdata.html.
Features and row filter are those of folktables 0.0.12 (F. Ding, M. Hardt, J. Miller, L. Schmidt,
"Retiring Adult", NeurIPS 2021); the target is continuous here, not folktables' threshold.
"""

LIMITS_OF_USE = """\
- Kept, but never inputs: the row weight PWGTP, state ST, area PUMA (state code followed by the
  area's five digits), survey year. Measures are taken over rows, not over the weighted population,
  unless a run names PWGTP under weights.
- Answers are self-reported, some imputed by the bureau, incomes top-coded by state; dollars are
  not adjusted by ADJINC, as in folktables. 2020 has no standard 1-Year release.
- Between 2018 and 2019 RELP became RELSHIPP with other codes; between revisions of a
  classification (occupations, areas) codes are not translated. Training on one side of such a
  change and testing on the other leaves those columns empty.
"""

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
    titles={"PINCP": "yearly income", "AGEP": "age"},
    row_noun="persons",
    sensitive=("AGEP",),
    sensitive_options=("AGEP", "WKHP"),
    numeric=("AGEP", "WKHP"),
    categorical=("COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "SEX", "RAC1P"),
    scale="minmax",
    sources=SOURCES,
    datasheet=INCOME_DATASHEET,
    extra=EXTRA,
    rows=RowFilter(
        columns=("AGEP", "PINCP", "WKHP", "PWGTP"),
        keep=lambda c: (c["AGEP"] > 16) & (c["PINCP"] > 100) & (c["WKHP"] > 0) & (c["PWGTP"] >= 1),
        reason="not AGEP > 16, PINCP > 100, WKHP > 0, PWGTP >= 1",
    ),
    limits=LIMITS,
    renamed=RENAMED,
    split=SPLIT,
)

TRAVEL_TIME_DATASHEET = f"""\
# ACSTravelTime, continuous

{SOURCE}
- Target: JWMNP, minutes from home to work. Sensitive: AGEP, age in years.
- Rows: AGEP > 16, PWGTP >= 1, ESR = 1 (at work). Who works at home has no travel time; folktables
  counts those rows as short travel, a regression drops them.
- Inputs: SCHL, MAR, SEX, DIS, ESP, MIG, RELP, RAC1P, PUMA, ST, CIT, OCCP, JWTR, POWPUMA as
  categories (a missing value is a level of its own; ST is left out if it is constant); POVPIP,
  income relative to the poverty line in percent, as a number, missing = 0 as in folktables.
{LIMITS_OF_USE}"""

ACS_TRAVEL_TIME = Problem(
    name="acs_travel_time",
    title="ACS travel time",
    target="JWMNP",
    target_unit="minutes",
    titles={"JWMNP": "minutes to work", "AGEP": "age"},
    row_noun="persons",
    sensitive=("AGEP",),
    sensitive_options=("AGEP", "POVPIP"),
    numeric=("AGEP", "POVPIP"),
    categorical=(
        *("SCHL", "MAR", "SEX", "DIS", "ESP", "MIG", "RELP", "RAC1P", "PUMA", "ST"),
        *("CIT", "OCCP", "JWTR", "POWPUMA"),
    ),
    scale="minmax",
    sources=SOURCES,
    datasheet=TRAVEL_TIME_DATASHEET,
    fills={"POVPIP": 0.0},
    extra=EXTRA,
    rows=RowFilter(
        columns=("AGEP", "PWGTP", "ESR"),
        keep=lambda c: (c["AGEP"] > 16) & (c["PWGTP"] >= 1) & (c["ESR"] == 1),
        reason="not AGEP > 16, PWGTP >= 1, ESR = 1",
    ),
    target_absent="no travel time: works at home",
    limits=LIMITS,
    renamed=RENAMED,
    split=SPLIT,
)

PROBLEMS = (ACS_INCOME, ACS_TRAVEL_TIME)
