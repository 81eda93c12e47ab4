"""A made-up report whose numbers look like those of Communities and Crime."""

import itertools
from dataclasses import replace
from datetime import UTC, datetime

from configs.run import SelectConfig
from tasks.report.model import (
    ChampionSummary,
    DataProvenance,
    Estimate,
    ReportData,
    ReportedNumber,
    RunProvenance,
    SensitiveColumn,
    TargetColumn,
    TrialSummary,
)
from tasks.select.judgement import Judgement, Recovered, ScoreIntervals

BLACK, WHITE = "racepctblack", "racePctWhite"
TITLES = {BLACK: "the share of Black residents", WHITE: "the share of white residents"}
# method, label, strength name, parameters, then (strength, MAE, HGR, GDP, PF)
SVR = (
    (0, 0.0915, 0.583, 0.0565, 0.301),
    (5, 0.1007, 0.481, 0.0465, 0.221),
    (30, 0.1064, 0.451, 0.0397, 0.203),
    (45, 0.1150, 0.415, 0.0280, 0.151),
    (60, 0.1250, 0.380, 0.0174, 0.105),
    (80, 0.1390, 0.300, 0.0120, 0.090),
)
KRR = (
    (0, 0.0952, 0.591, 0.0562, 0.298),
    (5, 0.1049, 0.496, 0.0463, 0.205),
    (10, 0.1180, 0.470, 0.0410, 0.215),
    (18, 0.1330, 0.402, 0.0260, 0.160),
)
FKL = (
    (0, 0.0952, 0.591, 0.0562, 0.298),
    (0.05, 0.1046, 0.490, 0.0386, 0.210),
    (0.25, 0.1220, 0.330, 0.0190, 0.120),
    (1, 0.1447, 0.169, 0.0069, 0.063),
)
METHODS = (
    ("svr_fkd", "SVR-FKD", "iterations", {"C": 0.75, "epsilon": 0.01, "gamma": 0.05}, SVR),
    ("krr_fkd", "KRR-FKD", "iterations", {"alpha": 0.25, "gamma": 0.05, "ridge": 0.1}, KRR),
    ("krr_fkl", "KRR-FKL", "penalty", {"alpha": 0.25, "gamma": 0.05}, FKL),
)
CONFIG = """\
name: crimes
seed: 0
data:
  problem: crimes
  source: embedded
  sensitive: [racepctblack]
folds: {k: 5, kind: shuffled}
select: {minimise: mae, subject_to: {gdp: 0.02}}
"""
DATASHEET = """\
# Communities and Crime

Socio-economic, law-enforcement and crime data of **1,994** communities in the United States.

| column | meaning |
|---|---|
| ViolentCrimesPerPop | violent crimes per population, scaled to 0 to 1 |

- Licence: CC BY 4.0
- Credit: Redmond (2002), UCI Machine Learning Repository
"""


def estimate(mean: float, share: float = 0.05) -> ReportedNumber:
    """A mean whose spread is a share of it."""
    return ReportedNumber(mean, share * mean)


def interval(value: float) -> Estimate:
    """A value with an interval of a tenth to each side."""
    return value, 0.9 * value, 1.1 * value


def make_trials(
    columns: tuple[str, ...], needs_sensitive: bool = False
) -> tuple[TrialSummary, ...]:
    """Twelve settings of three methods, then the mean as a dummy."""
    numbers = itertools.count()
    trials = [
        TrialSummary(
            key=f"trial-{next(numbers)}",
            label=label,
            mae=estimate(mae, 0.03),
            scores={c: _scores(hgr, gdp, pf, 1 - 0.2 * i) for i, c in enumerate(columns)},
            folds=5,
            strength_name=strength_name,
            strength=strength,
            params=params,
            seconds=1.3 + strength / 50,
            needs_sensitive=needs_sensitive and method == "krr_fkl",
            removes_nothing=strength == 0,
        )
        for method, label, strength_name, params, settings in METHODS
        for strength, mae, hgr, gdp, pf in settings
    ]
    nothing = {c: _scores(0.0, 0.0, 0.0, 1.0) for c in columns}
    dummy = TrialSummary(
        "dummy",
        "Mean dummy",
        ReportedNumber(0.1785, 0.004),
        nothing,
        5,
        seconds=0.01,
        dummy=True,
        removes_nothing=True,
    )
    return (*trials, dummy)


def _scores(hgr: float, gdp: float, pf: float, factor: float) -> dict[str, ReportedNumber]:
    """The three measures on one column."""
    return {
        "hgr": estimate(hgr * factor, 0.06),
        "gdp": estimate(gdp * factor, 0.08),
        "pf": estimate(pf * factor, 0.1),
    }


def held_out(
    mae: float, hgr: float, gdp: float, pf: float, columns: tuple[str, ...]
) -> ScoreIntervals:
    """Held-out numbers, the same on every column."""
    scores = {"hgr": interval(hgr), "gdp": interval(gdp), "pf": interval(pf)}
    return ScoreIntervals(interval(mae), dict.fromkeys(columns, scores))


def changed(after: ScoreIntervals, before: ScoreIntervals, doubt: float = 0.1) -> ScoreIntervals:
    """After minus before, each with a share of the number before as doubt to each side."""

    def minus(a: Estimate, b: Estimate) -> Estimate:
        value, width = a[0] - b[0], doubt * b[0]
        return value, value - width, value + width

    return ScoreIntervals(
        minus(after.mae, before.mae),
        {
            column: {
                name: minus(found, before.measures[column][name]) for name, found in own.items()
            }
            for column, own in after.measures.items()
        },
    )


def make_champion(columns: tuple[str, ...]) -> ChampionSummary:
    """SVR-FKD at 60 iterations, an exact kernel model."""
    after = held_out(0.1271, 0.391, 0.0189, 0.111, columns)
    before = held_out(0.0932, 0.577, 0.0551, 0.296, columns)
    probes = (
        ("ridge regression", 0.861, 0.012),
        ("kernel ridge (RBF)", 0.902, 0.334),
        ("gradient boosting", 0.917, 0.412),
    )
    return ChampionSummary(
        trial="trial-4",
        policy=SelectConfig(subject_to={"gdp": 0.02}),
        judgement=Judgement(
            held_out=after,
            reference=before,
            changes=changed(after, before),
            noise={},
            rows_choosing=1594,
            rows_held_out=399,
            recovered=tuple(Recovered(column, *probe) for column in columns for probe in probes),
        ),
        deciding={"mae": 0.1243, "gdp": 0.0182},
        stored_rows=1594,
        model_uri="models:/crimes@champion",
    )


def rejudged(champion: ChampionSummary, **changes: object) -> ChampionSummary:
    """The champion with other held-out numbers."""
    judgement = replace(champion.judgement, **changes)  # type: ignore[arg-type]
    return replace(champion, judgement=judgement)


def make_report(columns: tuple[str, ...] = (BLACK,), **changes: object) -> ReportData:
    """A full report; `changes` replace its fields."""
    report = ReportData(
        name="crimes",
        title="Violent crime without dependence on race",
        problem="Communities and Crime",
        target=TargetColumn("violent crimes per population"),
        columns=tuple(
            SensitiveColumn(c, TITLES.get(c, ""), noise_floor={"hgr": (0.103, 0.152)})
            for c in columns
        ),
        trials=make_trials(columns),
        data=DataProvenance(
            source="embedded copy, UCI Machine Learning Repository",
            rows_read=1994,
            rows_used=1993,
            files=(("crimes.csv.gz", "9f2c" * 16),),
            rows_dropped={"no value for the target": 1},
            inputs=98,
            row_noun="communities",
            datasheet=DATASHEET,
        ),
        run=RunProvenance(
            seed=0,
            finished=datetime(2026, 11, 3, 14, 5, tzinfo=UTC),
            seconds=83.4,
            config_digest="3b1f" * 16,
            config_yaml=CONFIG,
            data_digest="77aa" * 16,
            commands=("fkd run crimes",),
            versions={
                "fkd": "0.1.0",
                "Python": "3.11.9",
                "numpy": "2.4.6",
                "scikit-learn": "1.9.1",
            },
            machine={"Machine": "Linux, x86_64, 2 cores", "BLAS threads": "1"},
            tracking={"MLflow experiment": "crimes", "MLflow run": "0f3e" * 8},
        ),
        champion=make_champion(columns),
    )
    return replace(report, **changes)  # type: ignore[arg-type]


def poison_report(text: str) -> ReportData:
    """A report that carries the text in every place that comes from data."""
    report = make_report((text,), failures={text: text})
    chosen = replace(report.trials[4], label=text, strength_name=text, params={text: text})
    return replace(
        report,
        name=text,
        title=text,
        problem=text,
        target=TargetColumn(text, text, 2.0),
        columns=(replace(report.columns[0], title=text),),
        trials=(*report.trials[:4], chosen, *report.trials[5:]),
        removed=(text,),
        data=replace(
            report.data,
            source=text,
            files=((text, text),),
            rows_dropped={text: 1},
            row_noun=text,
            survey_weight=text,
            datasheet=f"{text}\n\n[link](javascript:alert(1)) ![image](http://example.org/a.png)",
        ),
        run=replace(
            report.run,
            config_digest=text,
            config_yaml=text,
            data_digest=text,
            commands=(text,),
            versions={text: text},
            machine={text: text},
            tracking={text: text},
        ),
        champion=replace(
            rejudged(make_champion((text,)), recovered=(Recovered(text, text, 0.9, 0.1),)),
            model_uri=text,
        ),
    )


FAILURES = {
    "SVR-FKD with iterations 100": "the solver did not converge in 10,000,000 steps",
}
