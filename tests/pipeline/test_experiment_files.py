"""The shipped experiments: they parse, they are the paper's, faults in one are told."""

import pytest

from configs.errors import UserError
from configs.reproduction import (
    QUICK_FOLDS,
    QUICK_ROWS,
    experiment_names,
    is_network,
    parse_experiment,
    quick,
    read_experiment,
    statements,
    synthetic,
    without,
)
from configs.run import ClusterConfig
from fkd.methods import method


def tree(**changed):
    return {
        "name": "T",
        "title": "title",
        "question": "question?",
        "runs": {
            "crimes": {
                "title": "Crimes",
                "data": {"problem": "crimes"},
                "curves": {"ours": "krr_fkd", "Dummy": "dummy"},
            }
        },
        **changed,
    }


AGREE = {
    "says": "so",
    "rule": "agree",
    "curve": "ours",
    "to": "Dummy",
    "tolerance": 1.0,
    "up_to": 1,
}


def network(declared):
    if declared.extra is not None and declared.extra.missing():
        return "not installed"
    return "no networks" if is_network(declared) else None


def test_all_experiments_are_there():
    assert experiment_names() == (*(f"E{i}" for i in range(11)), "preprocessing")


@pytest.mark.parametrize("name", experiment_names())
def test_every_experiment_can_be_run_whole_and_quick(name):
    for change in (lambda t: t, quick):
        plain = change(without(read_experiment(name), network))
        experiment = parse_experiment(plain)
        for run in experiment.runs:
            for config in experiment.run_configs(run, ClusterConfig()).values():
                assert config.select is None
                assert config.folds.k == (5 if change is not quick else QUICK_FOLDS)


def test_crimes_is_the_published_file_except_in_a_quick_run():
    plain = read_experiment("E2")
    assert parse_experiment(plain).runs["crimes"].data.source == "uci"
    data = parse_experiment(quick(plain)).runs["crimes"].data
    assert (data.source, data.sample) == ("embedded", QUICK_ROWS)


def test_a_quick_run_leaves_out_what_the_embedded_file_lacks():
    plain = read_experiment("preprocessing")
    label = "missing values filled by 0"
    assert parse_experiment(plain).runs["crimes"].curves[label].variant == "filled"
    experiment = parse_experiment(quick(plain))
    assert label not in experiment.runs["crimes"].curves
    assert "embedded" in experiment.left_out[label]


def test_the_grids_of_the_main_figure_are_the_published_ones():
    experiment = parse_experiment(without(read_experiment("E1"), network))
    lengths = {
        label: [s.iterations for s in curve.method.settings("acs_income")]
        for label, curve in experiment.runs["acs_income"].curves.items()
        if label in ("KRR-FKD", "SVR-FKD")
    }
    assert lengths == {"KRR-FKD": [0, 15, 20, 30], "SVR-FKD": [0, 45, 60, 80, 100]}


def test_what_is_left_out_stays_known_to_the_claims():
    experiment = parse_experiment(without(read_experiment("E6"), network))
    networks = {c for c in read_experiment("E6")["runs"]["crimes"]["curves"] if c.startswith("NN-")}
    assert set(experiment.left_out) == networks
    said = statements(read_experiment("E6"))
    assert len(experiment.claims) * len(experiment.runs) == len(said)


def test_a_claim_with_lists_is_one_claim_for_each_combination():
    claim = {
        "says": "{run}: {curve} beats Dummy by {measure}",
        "rule": "better",
        "curve": ["ours", "Dummy"],
        "than": "Dummy",
        "measure": ["hgr", "gdp"],
    }
    plain = tree(claims=[claim])
    assert [(c.curve, c.measure) for c in parse_experiment(plain).claims] == [
        ("ours", "hgr"),
        ("ours", "gdp"),
        ("Dummy", "hgr"),
        ("Dummy", "gdp"),
    ]
    assert statements(plain)[1] == "Crimes: ours beats Dummy by GDP"


@pytest.mark.parametrize(
    "claims", [["so"], [{"says": 3, "curve": ["ours"]}], "so", [{**AGREE, "curve": []}]]
)
def test_a_claim_that_is_none_is_refused_in_words(claims):
    with pytest.raises(UserError, match="claims"):
        parse_experiment(tree(claims=claims))


@pytest.mark.parametrize("name", experiment_names())
def test_no_two_claims_of_an_experiment_say_the_same(name):
    said = statements(read_experiment(name))
    assert len(set(said)) == len(said)
    assert not any("{" in text for text in said)


def test_other_states_are_other_than_that_of_the_paper():
    experiment = parse_experiment(read_experiment("E9"))
    assert "MT" in experiment.runs  # drawn beside them
    assert not any("MT" in claim.runs for claim in experiment.claims)
    assert len(statements(read_experiment("E9"))) == 6 * 8
    assert "Montana" not in " ".join(statements(read_experiment("E9")))


def test_shrinking_is_judged_under_five_seeds_and_in_the_other_states():
    plain = read_experiment("E10")
    experiment = parse_experiment(without(plain, network))
    others = [run for run in read_experiment("E9")["runs"] if run != "MT"]
    seeds = {run: experiment.seeds_of(run) for run in experiment.runs}
    main = ["crimes", "acs_income", "acs_travel_time"]
    assert seeds == {**dict.fromkeys(main, (0, 1, 2, 3, 4)), **dict.fromkeys(others, (0,))}
    assert {claim.source for claim in experiment.claims} == {"ours"}
    for found in experiment.runs.values():
        assert (f"{found.data.sample} rows" in found.title) == (found.data.sample is not None)
    for claim in experiment.claims:
        if "FRRM" in getattr(claim, "than", ""):
            assert "which sees s when it predicts" in claim.says


@pytest.mark.parametrize("run", ["crimes", "acs_income", "acs_travel_time", "DE"])
def test_rivals_have_as_many_points_as_shrinking_and_its_machine(run):
    found = parse_experiment(without(read_experiment("E10"), network)).runs[run]
    problem = found.data.problem
    settings = {label: c.method.settings(problem) for label, c in found.curves.items()}
    points = len(settings["SVR-FKS"])
    assert points == {"crimes": 13, "DE": 5}.get(run, 7)
    single = {"LEACE", "Dummy", "Median dummy"}
    published = {"KRR-FKD", "SVR-FKD", "KRR-FKL"}
    for label in set(settings) - single - published:
        assert len(settings[label]) >= points, label
    ours, theirs = settings["SVR-FKS"][0], settings["SVR-FKD"][0]
    for name in ("C", "epsilon", "gamma"):
        assert getattr(ours, name) == getattr(theirs, name)


def test_what_the_paper_says_of_unregularised_methods_is_taken_without_regularisation():
    experiment = parse_experiment(without(read_experiment("E1"), network))
    equal = [claim for claim in experiment.claims if claim.rule == "equal"]
    assert {claim.at for claim in equal} == {0}
    assert all("unregularised" in claim.says for claim in equal)
    for label in ("KRR-FKD", "KRR-FKL"):
        entry = experiment.runs["acs_travel_time"].curves[label].method
        strength = method(entry.name).strength
        assert 0 in [getattr(s, strength) for s in entry.settings("acs_travel_time")]


@pytest.mark.parametrize("name", experiment_names())
def test_margins_are_shares_and_statements_say_of_what(name):
    for claim in parse_experiment(without(read_experiment(name), network)).claims:
        if claim.rule == "not_better":
            assert claim.margin == 0.02
            assert "to 2 % of" in claim.says
            assert "gain on the dummy" in claim.says


def test_quick_grids_keep_their_ends():
    plain = quick(read_experiment("E1"))
    lengths = plain["runs"]["crimes"]["curves"]["SVR-FKD"]["grid"]["iterations"]
    assert lengths[0] == 0
    assert lengths[-1] == 80
    assert len(lengths) == 3
    assert plain["runs"]["crimes"]["curves"]["NN-HGR"]["epochs"] < 100


def test_a_variant_changes_the_data_of_its_curve_alone():
    configs = parse_experiment(read_experiment("E2")).run_configs("crimes", ClusterConfig())
    assert configs["plain"].data.sensitive == ("racepctblack",)
    assert configs["multi"].data.sensitive == ("racepctblack", "racePctWhite")
    assert configs["plain"].data.drop == configs["multi"].data.drop
    assert [entry.name for entry in configs["multi"].methods] == ["svr_fkd"]


def test_a_variant_does_not_keep_defaults_that_its_own_keys_decide():
    plain = tree()
    plain["runs"]["crimes"]["variants"] = {"two": {"sensitive": ["racepctblack", "racePctWhite"]}}
    plain["runs"]["crimes"]["curves"]["other"] = {"name": "krr_fkd", "variant": "two"}
    data = parse_experiment(plain).run_configs("crimes", ClusterConfig())["two"].data
    assert data.drop == data.measure_on == ("racepctblack", "racePctWhite")


def test_a_quick_run_does_not_take_the_place_of_a_whole_one():
    whole, small = (
        parse_experiment(change(read_experiment("E2"))).run_configs("crimes", ClusterConfig())
        for change in (lambda t: t, quick)
    )
    assert {c.name for c in whole.values()}.isdisjoint(c.name for c in small.values())
    assert {c.experiment for c in whole.values()}.isdisjoint(c.experiment for c in small.values())


def test_synthetic_rows_are_for_the_run_that_has_no_others():
    changed = parse_experiment(synthetic(quick(read_experiment("E0")), "acs_income"))
    assert changed.runs["acs_income"].data.source == "synthetic"
    assert changed.runs["acs_travel_time"].data.source == "census"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"claims": [{"says": "x", "rule": "less_error", "curve": "our", "than": "Dummy"}]},
            "claims.curve on crimes.*our.*ours",
        ),
        (
            {"claims": [{"says": "x", "rule": "les_error", "curve": "ours", "than": "Dummy"}]},
            "les_error",
        ),
        (
            {
                "claims": [
                    {
                        "says": "x",
                        "rule": "less_error",
                        "curve": "ours",
                        "than": "Dummy",
                        "runs": "c",
                    }
                ]
            },
            "claims.runs",
        ),
        (
            {
                "claims": [
                    {
                        **{"says": "x", "rule": "trend", "curve": "ours", "of": "gdp"},
                        **{"direction": "down", "column": "racePctWhite"},
                    }
                ]
            },
            "claims.column",
        ),
        ({"figure": {"kind": "pie"}}, "figure.kind"),
        ({"figure": {"kind": "errors", "along": "gama"}}, "figure.along"),
        ({"rums": {}}, "rums"),
    ],
)
def test_faults_in_a_file_are_told(changed, words):
    with pytest.raises(UserError, match=words):
        parse_experiment(tree(**changed))


def test_an_unknown_variant_is_refused():
    plain = tree()
    plain["runs"]["crimes"]["curves"]["ours"] = {"name": "krr_fkd", "variant": "other"}
    with pytest.raises(UserError, match=r"variant.*other"):
        parse_experiment(plain)


def test_an_unknown_experiment_is_refused_with_the_nearest():
    with pytest.raises(UserError, match="E11"):
        read_experiment("E11")


def test_every_method_of_the_experiments_is_declared():
    for name in experiment_names():
        for run in read_experiment(name)["runs"].values():
            for entry in run["curves"].values():
                assert method(entry if isinstance(entry, str) else entry["name"])
