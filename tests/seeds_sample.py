"""An experiment under several seeds of its folds, judged."""

from configs.reproduction import parse_experiment
from configs.run import ClusterConfig
from tasks.fit.job import run_job
from tasks.reproduce.claims import verdicts_on
from tasks.reproduce.curves import seeded_curves
from tasks.reproduce.resample import resample
from tasks.select.study import open_study

DRAWS = 25
GRID = {"grid": {"iterations": [0, 4, 12]}}


def tree(seeds=None, *, once=None, **changed):
    run = {
        "title": "Crimes",
        "data": {"problem": "crimes", "sample": 240},
        "folds": {"k": 3},
        "curves": {
            "ours": {"name": "krr_fkd", **GRID},
            "same": {"name": "krr_fkd", **GRID},
            "other": {"name": "krr_fkd", "ridge": 10.0, **GRID},
            "once": {"name": "krr", **({"seeds": list(once or seeds[:1])} if seeds else {})},
            "Dummy": "dummy",
        },
        **({"seeds": list(seeds)} if seeds else {}),
        **changed,
    }
    claims = [
        {"says": "better", "rule": "better", "curve": "ours", "than": "other", "measure": "gdp"},
        {"says": "learns", "rule": "less_error", "curve": "ours", "than": "Dummy"},
        {"says": "once", "rule": "less_error", "curve": "once", "than": "Dummy"},
        {**{"says": "bits", "rule": "agree", "curve": "ours", "to": "same"}, **AGREE},
        {**{"says": "no bits", "rule": "agree", "curve": "ours", "to": "other"}, **AGREE},
    ]
    words = {"name": "T", "title": "Seeds", "question": "Is it chance?"}
    return {**words, "runs": {"crimes": run}, "claims": claims}


AGREE = {"tolerance": 1e-12, "up_to": 12}


def opened(experiment, settings):
    return {
        seed: {
            variant: open_study(config, settings)
            for variant, config in experiment.run_configs("crimes", ClusterConfig(), seed).items()
        }
        for seed in experiment.seeds_of("crimes")
    }


def jobs_of(studies):
    return [job for found in studies.values() for s in found.values() for job in s.missing()]


def compute(jobs):
    for job in jobs:
        resample(job)


def judged(seeds, settings):
    experiment = parse_experiment(tree(seeds))
    studies = opened(experiment, settings)
    for job in jobs_of(studies):
        run_job(job)
    curves = {"crimes": seeded_curves(studies, experiment.runs["crimes"])}
    told = verdicts_on(experiment, curves, {}, compute, DRAWS)
    return experiment, curves, {verdict.says: verdict for verdict in told}
