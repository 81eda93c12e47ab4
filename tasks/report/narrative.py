"""Write the sentences of a report.

`finding_of` summarises a run. The other public functions return the sentences on the rule that
chose the model, on persons, on recoverability, and the cautions.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from fkd.measures import MEASURES, REPORTED
from tasks.report.html import (
    MAE_DECIMALS,
    change,
    count,
    has_own_unit,
    in_unit,
    joined,
    measure_decimals,
    measure_label,
    own_number,
    setting_text,
    shown,
    with_interval,
)
from tasks.report.model import ChampionSummary, Estimate, ReportData, SensitiveColumn, TrialSummary
from tasks.report.profile_section import profiles_of
from tasks.report.tables import compared_models
from tasks.select.groups import CHOSEN, REFERENCE
from tasks.select.judgement import ScoreIntervals
from tasks.select.results import Finding

FELL, ROSE, SAME = "fell", "rose", "within noise"


def finding_of(report: ReportData) -> Finding:
    """Return the result of a run as a short text and as sentences."""
    broken, comparison = broken_limits(report), _compare(report)
    if not report.chosen:
        word = "no champion"
    elif report.chosen.dummy:
        word = "a constant"
    elif report.chosen.removes_nothing:
        word = "nothing removed"
    elif comparison is None:
        word = "not compared"
    else:
        effects = {
            effect_of(found)
            for column in report.columns
            if column.removed
            for found in comparison.changes.measures[column.name].values()
        }
        word = " and ".join(effect for effect in (FELL, ROSE) if effect in effects) or SAME
    words = ("limit broken", word) if broken else (word,)
    sentences = (
        *_result(report, comparison),
        *_undefined_measures(report),
        *([within_sentence(report)] if report.within and report.chosen else []),
    )
    return Finding("; ".join(words), broken, sentences)


def task_sentence(report: ReportData) -> str:
    """Return a sentence on target, inputs, rows and removed columns."""
    data = report.data
    columns = f"{count(data.inputs)} columns of data" if data.inputs else "data"
    removed = removed_text(report)
    aim = f", with as little dependence as possible on {removed}" if removed else ""
    return (
        f"Models were trained to predict {report.target.title} from {columns} "
        f"on {count(data.rows_used)} {data.row_noun} ({report.problem}){aim}."
    )


def removed_text(report: ReportData) -> str:
    """Return the removed columns as an enumeration."""
    return joined(report.removed or [c.text for c in report.columns if c.removed])


def effect_of(change: Estimate) -> str:
    """Return the direction of a change, or that it is within noise."""
    _, low, high = change
    if high < 0:
        return FELL
    return ROSE if low > 0 else SAME


def broken_limits(report: ReportData) -> tuple[str, ...]:
    """Return one sentence per limit that the chosen model exceeds on the held-out rows."""
    sentences = []
    limits = report.champion.limits if report.champion else {}
    for subject, name, limit, found in _held_out_limits(report, limits):
        if found is None:
            sentences.append(
                f"A limit cannot be checked: {subject} is undefined on the held-out rows."
            )
        elif found[0] > limit:
            number = with_interval(found, measure_decimals(name))
            sentences.append(
                f"The chosen model breaks its limit: {subject} is {number} on the held-out rows, "
                f"above {limit:g}."
            )
    return tuple(sentences)


def limit_sentences(report: ReportData) -> tuple[str, ...]:
    """Return for each limit of the rule how the held-out numbers compare with it."""
    sentences = []
    limits = report.champion.policy.subject_to if report.champion else {}
    for subject, name, limit, found in _held_out_limits(report, limits):
        if found is not None:  # broken_limits has the others
            value, low, high = found
            verdict = "within" if value <= limit else "above"
            doubt = ". The interval includes the limit" if low <= limit < high else ""
            number = with_interval(found, measure_decimals(name))
            sentences.append(f"{subject} is {number}, {verdict} the limit of {limit:g}{doubt}.")
    return tuple(sentences)


def _held_out_limits(
    report: ReportData, limits: Mapping[str, float]
) -> Iterator[tuple[str, str, float, Estimate | None]]:
    """Yield a subject, the measure, its limit and its held-out value for every column."""
    measures = report.champion.judgement.held_out.measures if report.champion else {}
    for name, limit in limits.items():
        for column in report.columns:
            subject = f"{measure_label(name)} on {column.text}"
            yield subject, name, limit, measures[column.name].get(name)


class _Comparison(NamedTuple):
    """The same model with nothing removed, the chosen model, and its changes, on the same rows."""

    before: ScoreIntervals
    after: ScoreIntervals
    changes: ScoreIntervals


def _compare(report: ReportData) -> _Comparison | None:
    """Return the comparison, None if nothing was removed or there is no reference."""
    if not report.champion or not report.chosen or report.chosen.removes_nothing:
        return None
    judged = report.champion.judgement
    if not judged.reference or not judged.changes:
        return None
    return _Comparison(judged.reference, judged.held_out, judged.changes)


def _result(report: ReportData, comparison: _Comparison | None) -> Iterator[str]:
    """Yield the sentences on choice, effect and cost."""
    champion, chosen = report.champion, report.chosen
    if not champion or not chosen:
        yield report.no_champion or "No model was chosen. The figures show all trials."
        return
    yield f"The chosen model is {setting_text(chosen)}."
    if champion.within_noise:
        label = measure_label(champion.policy.knee_of or "")
        yield (
            f"It is the most accurate model. It was chosen because its {label} on the inner folds "
            f"does not exceed the noise floor, so no model has a smaller {label} beyond noise."
        )
    if comparison and not chosen.dummy:
        yield from _effect_sentences(report, comparison)
        yield from _noise_sentences(report, champion)
        yield _cost_sentence(report, comparison)
        return
    if chosen.dummy:
        yield "It predicts a constant, which depends on no column and distinguishes no cases."
    elif chosen.removes_nothing:
        yield (
            "It removes nothing: it uses everything that its inputs contain about "
            f"{removed_text(report) or 'the attribute'}."
        )
    else:
        yield (
            "The same model with nothing removed was not among the trials, so the effect of the "
            "removal and its cost are unknown."
        )
    yield _held_out_sentence(report, champion)
    if not chosen.dummy:
        yield from _noise_sentences(report, champion)


def _effect_sentences(report: ReportData, comparison: _Comparison) -> Iterator[str]:
    """Yield the change of the dependence on every column, one sentence per direction."""
    opening = "Compared with the same model with nothing removed, on the same held-out rows, its"
    verbs = {FELL: "fell", ROSE: "rose", SAME: "did not change beyond noise"}
    for column in report.columns:
        texts: dict[str, list[str]] = {}
        before, after, changes = (side.measures[column.name] for side in comparison)
        for name, found in changes.items():
            measure = MEASURES[name]
            ends = (shown(side[name][0], measure.decimals) for side in (before, after))
            texts.setdefault(effect_of(found), []).append(
                f"{measure.label} from {' to '.join(ends)}"
            )
        for effect, verb in verbs.items():
            if effect in texts:
                yield f"{opening} dependence on {column.text} {verb}: {joined(texts[effect])}."
                opening = "Its"


def _cost_sentence(report: ReportData, comparison: _Comparison) -> str:
    """Return the change of the error."""
    before, after = comparison.before.mae[0], comparison.after.mae[0]
    first, last = (own_number(value, report.target) for value in (before, after))
    ends = f"from {first} to {in_unit(after, report.target)} ({change(before, after)})"
    effect = effect_of(comparison.changes.mae)
    if effect == SAME:
        return f"The mean absolute error changed {ends}, which is within noise."
    if first == last:  # of very many rows the interval is narrower than the last digit
        return (
            f"The mean absolute error {effect} by less than its last digit "
            f"({in_unit(after, report.target)} before and after)."
        )
    cost = "The removal cost accuracy" if effect == ROSE else "The removal cost no accuracy"
    return f"{cost}: the mean absolute error {effect} {ends}."


def _held_out_sentence(report: ReportData, champion: ChampionSummary) -> str:
    """Return error and measures of a model without a comparison."""
    columns = []
    for column in report.columns:
        found = champion.judgement.held_out.measures[column.name]
        texts = [
            f"{measure.label} {shown(found[name][0], measure.decimals)}"
            for name, measure in REPORTED.items()
            if name in found
        ]
        columns += [f"on {column.text}: {joined(texts)}"] if texts else []
    error = in_unit(champion.judgement.held_out.mae[0], report.target)
    measured = f" Its dependence {'; '.join(columns)}." if columns else ""
    return f"On the held-out rows its mean absolute error is {error}.{measured}"


def _noise_sentences(report: ReportData, champion: ChampionSummary) -> Iterator[str]:
    """Yield for each measure with a noise floor the columns on which the model exceeds it."""
    held_out = champion.judgement.held_out.measures
    for name, measure in REPORTED.items():
        label, means = measure.label, list[float]()
        above, within = list[str](), list[str]()
        for column in report.columns:
            if name in column.noise_floor and name in held_out[column.name]:
                mean, upper = column.noise_floor[name]
                means.append(mean)
                side = above if held_out[column.name][name][0] > upper else within
                side.append(column.text)
        if not means:
            continue
        if not within:
            result = f"the remaining {label} exceeds noise"
        elif not above:
            result = f"the remaining {label} is within noise"
        else:
            result = (
                f"the remaining {label} on {joined(above)} exceeds noise, and on {joined(within)} "
                "it is within noise"
            )
        yield (
            f"Independent predictions would have a mean {label} of about {means[0]:.2f}, so "
            f"{result}."
        )


def _undefined_measures(report: ReportData) -> Iterator[str]:
    """Yield one sentence per column on which a measure is undefined."""
    held_out = [report.champion.judgement.held_out.measures] if report.champion else []
    known = [*(trial.scores for trial in report.trials), *held_out]
    for column in report.columns:
        for name, measure in REPORTED.items():
            if any(name not in scores[column.name] for scores in known):
                yield f"{measure.label} on {column.text} is undefined: {measure.undefined}."


def within_sentence(report: ReportData) -> str:
    """Return the dependence within groups, in units of the prediction if possible."""
    texts = []
    for column in report.columns:
        scores = report.within.scores[column.name] if report.within else {}
        if not scores:
            texts.append(f"the dependence on {column.text} could not be measured")
            continue
        in_units = (name for name in scores if MEASURES[name].unit == "prediction")
        name = next(in_units, next(iter(scores)))
        means = {
            model: with_interval(scores[name][model].mean, MEASURES[name].decimals)
            for model in compared_models(report)
        }
        measured, left_out = (len(scores[name][CHOSEN].groups), len(scores[name][CHOSEN].left_out))
        groups = f"{measured} of {measured + left_out}" if left_out else f"{measured}"
        before = f", with nothing removed {means[REFERENCE]}" if REFERENCE in means else ""
        texts.append(
            f"the mean {MEASURES[name].label} on {column.text} is {means[CHOSEN]} over {groups} "
            f"groups{before}"
        )
    return f"Within groups of {joined(report.control)}, {'; '.join(texts)}."


class Tile(NamedTuple):
    """One number with its change by the removal."""

    title: str
    value: str
    change: str


def tiles_of(report: ReportData) -> list[Tile]:
    """Return tiles for the error and for the measures on every column; none without reference."""
    comparison = _compare(report)
    if not comparison:
        return []

    def tile(title: str, values: tuple[float, float], texts: list[str], found: Estimate) -> Tile:
        effect, percent = effect_of(found), change(*values).lstrip("+−")
        if effect == SAME:  # a direction would be noise
            return Tile(title, texts[1], f"within noise of {texts[0]}")
        return Tile(title, texts[1], f"{effect} {percent}, from {texts[0]}")

    errors = comparison.before.mae[0], comparison.after.mae[0]
    own_unit = has_own_unit(report.target)
    texts = [in_unit(e, report.target) if own_unit else shown(e, MAE_DECIMALS) for e in errors]
    tiles = [tile("Mean absolute error", errors, texts, comparison.changes.mae)]
    for column in report.columns:
        before, after, changes = (side.measures[column.name] for side in comparison)
        for name, measure in REPORTED.items():
            if name in changes:
                subject = measure.title if len(report.columns) == 1 else column.text
                values = before[name][0], after[name][0]
                texts = [shown(value, measure.decimals) for value in values]
                tiles.append(tile(f"{measure.label}, {subject}", values, texts, changes[name]))
    return tiles


def policy_sentence(champion: ChampionSummary) -> str:
    """Return the rule that chose the champion."""
    policy = champion.policy
    if policy.knee_of:
        label = measure_label(policy.knee_of)
        return (
            f"The configured rule takes the knee of the front of {label} against MAE, the setting "
            "after which a further gain in fairness costs clearly more accuracy. Errors within one "
            f"standard error of the smallest error count as equal to it. Values of {label} within "
            "the noise floor count as 0. A constant is chosen only if every other model has a "
            "larger error."
        )
    least = measure_label(policy.minimise)
    limits = [
        f"{measure_label(name)} of at most {limit:g}" for name, limit in policy.subject_to.items()
    ]
    if not limits:
        return f"The configured rule takes the trial with the smallest {least}."
    return (
        f"The configured rule takes, of the trials with a mean {joined(limits)}, the one with the "
        f"smallest {least}."
    )


def deciding_sentence(champion: ChampionSummary) -> str:
    """Return the rows that the choice used, with the numbers that decided if they are known."""
    rows = count(champion.judgement.rows_choosing)
    opening = f"The choice used folds within {rows} rows only"
    if not champion.deciding:
        return f"{opening}, so its numbers differ slightly from those in the figures."
    numbers = [
        f"{measure_label(name)} {shown(value, measure_decimals(name))}"
        for name, value in champion.deciding.items()
    ]
    return f"{opening}. There this setting has {joined(numbers)}. The figures use all rows."


def recoverability_sentence(report: ReportData, column: SensitiveColumn) -> str:
    """Return the best held-out R² of the probes of a column, empty if there are none."""
    recovered = report.champion.judgement.recovered if report.champion else ()
    own = [row for row in recovered if row.column == column.name]
    if not own:
        return ""

    def share(r2: float) -> str:
        # R² below zero is worse than predicting the mean.
        return "nothing" if r2 < 0.005 else f"{100 * r2:.0f} %"

    before = max(own, key=lambda row: row.before)
    after = max(own, key=lambda row: row.after)
    opening = (
        f"On held-out rows the best probe ({before.probe}) explains {share(before.before)} of the "
        f"variation of {column.text} from the features"
    )
    if report.chosen and report.chosen.removes_nothing:
        return f"{opening}. Nothing was removed from them."
    return f"{opening} before the removal, and {share(after.after)} ({after.probe}) after it."


def person_sentences(report: ReportData) -> tuple[str, ...]:
    """Return sentences for a person about whom the chosen model decides."""
    champion, chosen = report.champion, report.chosen
    if not champion or not chosen:
        return ()
    error = in_unit(champion.judgement.held_out.mae[0], report.target)
    profiles = profiles_of(report)
    sentences = (
        _inputs_sentence(report, chosen),
        _dependence_sentence(report, champion, chosen),
        f"The mean absolute error of a prediction of {report.target.title} is {error}. The "
        "error of a single prediction can be much larger.",
        *(part.sentences[0] for part in (profiles.columns if profiles else ())),
    )
    return tuple(filter(None, sentences))


def _inputs_sentence(report: ReportData, chosen: TrialSummary) -> str:
    """Return how the attribute enters the model, by itself or by correlated inputs."""
    removed = removed_text(report)
    columns = [column for column in report.columns if column.removed]
    it = "them" if len(columns) > 1 else "it"
    if chosen.dummy:
        return "This model predicts the same value for everybody."
    if chosen.needs_sensitive:
        return f"Every prediction of this model needs {removed}, to correct for {it}."
    comparison = _compare(report)
    if comparison is None:
        effective = not chosen.removes_nothing
    else:
        changes = [comparison.changes.measures[column.name] for column in columns]
        effective = any(effect_of(one) == FELL for found in changes for one in found.values())
    if any(column.is_input for column in columns):
        given = f"The inputs of this model include {removed}"
        return f"{given}. Part of the dependence on {it} was removed." if effective else f"{given}."
    given = f"The inputs of this model do not include {removed}."
    proxies = [
        f"{name} (correlation {shown(value, 2)})"
        for column in columns
        for name, value in column.proxies
    ]
    if proxies:
        given = (
            f"{given} They include the columns with the highest correlation with {it}: "
            f"{joined(proxies)}."
        )
    if chosen.removes_nothing:
        return f"{given} Nothing that the inputs reveal about {it} was removed."
    if not effective:
        return f"{given} These rows do not show that the removal had an effect."
    return f"{given} Part of what the inputs reveal about {it} was removed."


def _dependence_sentence(
    report: ReportData, champion: ChampionSummary, chosen: TrialSummary
) -> str:
    """Return the remaining dependence on each column in the unit of the target."""
    reference = None if chosen.removes_nothing else champion.judgement.reference
    texts = []
    for column in report.columns:
        found = champion.judgement.held_out.measures[column.name]
        # The first measure in units of the prediction.
        name = next((name for name in found if MEASURES[name].unit == "prediction"), None)
        if name is None or not found[name][0] > 0:
            continue
        text = (
            f"at a given value of {column.text} the mean prediction differs from the overall mean "
            f"by about {in_unit(found[name][0], report.target)}"
        )
        if reference and name in reference.measures[column.name]:
            before = reference.measures[column.name][name][0]
            text += f" (with nothing removed: {own_number(before, report.target)})"
        texts.append(text)
    return f"Predictions still depend on the attribute: {'; '.join(texts)}." if texts else ""


def cautions_of(report: ReportData) -> dict[str, str]:
    """Return the cautions that apply to a report by heading, the most important first."""

    def labels(family: str) -> str:
        return joined([measure.label for measure in REPORTED.values() if measure.family == family])

    cautions = {
        "A fairer model is not a reason to automate.": "This report takes no position on whether a "
        "model should make such a decision at all. Models of this kind are in use and affect "
        "people. The numbers can inform that debate; they cannot settle it.",
        "Removal can be used against people.": "The same method can remove information that should "
        "count, if the real contribution or need of a group is declared a bias. Document who asked "
        f"for the removal of {removed_text(report) or 'an attribute'}, whom it helps and whom it "
        "harms.",
        "Reduced is not absent.": "The method removes the dependence that a ridge regression "
        "finds, step by step. Some dependence remains. Attributes that are not named here, and "
        "combinations of attributes, were not considered. A small value of one measure on these "
        "rows does not certify that a model is fair.",
        "The measures exclude each other.": f"{labels('independence')} are small if predictions do "
        f"not depend on the attribute. {labels('separation')} is small if cases are ranked equally "
        "well given their true values. If the truth itself varies with the attribute, no useful "
        "model achieves both, so people must decide which measure counts. Smoothed estimates of a "
        "measure are comparable within this report only.",
    }
    if names := dict.fromkeys(trial.label for trial in report.trials if trial.needs_sensitive):
        cautions["Some methods need the attribute to predict."] = (
            f"They are marked † in every figure: {', '.join(names)}. To use them, everybody must "
            "be asked for the attribute, which may be unlawful or unwelcome."
        )
    if names := dict.fromkeys(trial.label for trial in report.trials if trial.searched):
        cautions["Means over folds of searched parameters are slightly optimistic."] = (
            f"They are marked ‡ in the table of trials: {', '.join(names)}. A search chose these "
            "parameters on rows that all folds but the held-out one test on. Numbers on held-out "
            "rows are not affected."
        )
    if report.champion and report.champion.stored_rows:
        alternative = (
            "A Nystroem approximation keeps only a chosen number of landmark rows, and random "
            "Fourier features keep none."
            if report.champion.approximation == "exact"
            else "They are the landmarks of the approximation. Random Fourier features keep no "
            "rows."
        )
        cautions["The model file contains data."] = (
            "A kernel model compares each case with training rows, so its file contains "
            f"{count(report.champion.stored_rows)} encoded training rows. Everybody who has the "
            f"file has these rows. {alternative}"
        )
    weight, weighted = report.data.survey_weight, report.data.weighted
    if weighted:
        cautions[f"Rows are weighted by {weight}."] = (
            f"Weights were used in {joined(weighted)}, scaled to a mean of 1. Intervals count a "
            "row with a large weight as one row. Everything else is unweighted: the checks of "
            "drift, proxies and collapse, correlations of inputs with the attribute, and numbers "
            "of rows."
        )
    elif weight:
        cautions["Survey weights were not used."] = (
            f"Every row has the same weight, although the survey supplies weights ({weight}). The "
            "numbers describe the sample, not the population."
        )
    else:
        cautions["Every row has the same weight."] = (
            f"No survey weights were used, so the numbers describe these {report.data.row_noun}, "
            "not a population."
        )
    return cautions | {
        "One data set, one time.": f"All numbers come from {report.problem}. Another place, "
        "another year or another way of recording can change errors and dependence. Measure again "
        "before use and during use.",
        "The standard deviation over folds is not a confidence interval.": "Standard deviations "
        "over test folds (with their number as divisor) underestimate the uncertainty, because "
        "folds share most of their training rows. Intervals refer to other rows for the same "
        "models. They do not cover models trained on other rows.",
    }
