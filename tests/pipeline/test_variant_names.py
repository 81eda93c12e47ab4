from configs.methods import MethodConfig
from tasks.plan.trials import make_trials
from tasks.select.results import variant_names


def named(inputs, *entries):
    """The names of the trials of these method entries, in order."""
    trials = []
    for entry in entries:
        config = MethodConfig.model_validate(entry).on("crimes")
        trials += make_trials(config.name, config.settings("crimes"), inputs)
    names = variant_names(trials)
    return [names[trial.key] for trial in trials]


def entry(strengths, **parameters):
    return {"name": "krr_fkd", "grid": {"iterations": strengths}, **parameters}


def test_a_method_without_variants_keeps_its_title(quick_study):
    assert named(quick_study.inputs, entry([0, 5]), "dummy") == ["KRR-FKD", "KRR-FKD", "Dummy"]


def test_variants_are_told_apart_by_what_differs_only(quick_study):
    found = named(quick_study.inputs, entry([0, 5], gamma=0.5), entry([0], gamma=0.01))
    assert found == ["KRR-FKD (gamma 0.5)", "KRR-FKD (gamma 0.5)", "KRR-FKD (gamma 0.01)"]


def test_an_exact_kernel_is_told_from_an_approximation(quick_study):
    nystroem = {"kind": "nystroem", "landmarks": 50}
    found = named(quick_study.inputs, entry([0]), entry([0], approximation=nystroem))
    assert found == ["KRR-FKD (exact)", "KRR-FKD (nystroem)"]


def test_the_many_settings_of_a_search_share_a_name(quick_study):
    searched = [entry([0], gamma=round(0.01 * k, 2)) for k in range(1, 12)]
    found = named(quick_study.inputs, *searched, entry([0, 5], gamma=0.5))
    assert found[-1] == "KRR-FKD (gamma 0.5)"
    assert set(found[:-2]) == {"KRR-FKD (other settings)"}


def test_the_study_names_variants_in_titles(quick_study):
    assert quick_study.title(quick_study.trials[-1]) == "KRR-FKD iterations=4"
