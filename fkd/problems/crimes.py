"""Communities and Crime: violent crimes in communities of the United States."""

from fkd.problems.declaration import Problem

# Predictors without missing values, in the order of UCI's file. Left out are five columns that
# identify the place and 23 with missing values: 22 police columns (in 1675 of 1994 rows) and
# OtherPerCap (in one).
_NAMES = """
    population householdsize racepctblack racePctWhite racePctAsian racePctHisp agePct12t21
    agePct12t29 agePct16t24 agePct65up numbUrban pctUrban medIncome pctWWage pctWFarmSelf
    pctWInvInc pctWSocSec pctWPubAsst pctWRetire medFamInc perCapInc whitePerCap blackPerCap
    indianPerCap AsianPerCap HispPerCap NumUnderPov PctPopUnderPov PctLess9thGrade PctNotHSGrad
    PctBSorMore PctUnemployed PctEmploy PctEmplManu PctEmplProfServ PctOccupManu
    PctOccupMgmtProf MalePctDivorce MalePctNevMarr FemalePctDiv TotalPctDiv PersPerFam
    PctFam2Par PctKids2Par PctYoungKids2Par PctTeen2Par PctWorkMomYoungKids PctWorkMom NumIlleg
    PctIlleg NumImmig PctImmigRecent PctImmigRec5 PctImmigRec8 PctImmigRec10 PctRecentImmig
    PctRecImmig5 PctRecImmig8 PctRecImmig10 PctSpeakEnglOnly PctNotSpeakEnglWell PctLargHouseFam
    PctLargHouseOccup PersPerOccupHous PersPerOwnOccHous PersPerRentOccHous PctPersOwnOccup
    PctPersDenseHous PctHousLess3BR MedNumBR HousVacant PctHousOccup PctHousOwnOcc
    PctVacantBoarded PctVacMore6Mos MedYrHousBuilt PctHousNoPhone PctWOFullPlumb OwnOccLowQuart
    OwnOccMedVal OwnOccHiQuart RentLowQ RentMedian RentHighQ MedRent MedRentPctHousInc
    MedOwnCostPctInc MedOwnCostPctIncNoMtg NumInShelters NumStreet PctForeignBorn
    PctBornSameState PctSameHouse85 PctSameCity85 PctSameState85 LandArea PopDens PctUsePubTrans
    LemasPctOfficDrugUn
"""
PREDICTORS = tuple(_NAMES.split())
# Predictors with missing values, by the predictor that precedes them in UCI's file.
_INCOMPLETE = {
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
INCOMPLETE = {place: tuple(names.split()) for place, names in _INCOMPLETE.items()}

DATASHEET = """\
# Communities and Crime

One row is one American community: its census figures of 1990 with its violent crimes per
population from the FBI's Uniform Crime Reports of 1995. Source: UCI Machine Learning Repository,
Communities and Crime, M. Redmond, 2002, https://doi.org/10.24432/C53W3X, licence CC BY 4.0.

- Target: ViolentCrimesPerPop. Sensitive: racepctblack; racePctWhite is a second one.
- Inputs: 99 predictors without missing values, less the dropped columns; 23 more, with missing
  values, only if asked for (missing: zero). The other racial shares stay in: they are the
  indirect channel that fairness has to deal with.
- Units: UCI scaled every column to [0, 1] by its own range, at two decimals, with values beyond
  three standard deviations set to the ends. That scale is kept.
- Limits: the crime figures are police reports, so they measure policing besides crime; some
  states report otherwise; the data are more than 30 years old. A model of them is a study of
  methods. It must not steer policing.
"""

CRIMES = Problem(
    name="crimes",
    title="Communities and Crime",
    target="ViolentCrimesPerPop",
    target_unit="share of UCI's range",
    sensitive=("racepctblack",),
    sensitive_options=PREDICTORS,
    numeric=PREDICTORS,
    incomplete=tuple(name for names in INCOMPLETE.values() for name in names),
    scale="none",
    fixed_range=(0.0, 1.0),
    extra=("fold",),
    sources={"embedded": (), "uci": ("missing=zero",)},
    datasheet=DATASHEET,
    titles={
        "ViolentCrimesPerPop": "violent crimes per resident",
        "racepctblack": "share of Black residents",
        "racePctWhite": "share of white residents",
    },
    row_noun="communities",
)

PROBLEMS = (CRIMES,)
