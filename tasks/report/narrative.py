"""What the removal changed on held-out rows: fell, rose, or no more than noise."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from fkd.measures import MEASURES, REPORTED, Measure
from tasks.report.formatting import (
    MAE_DECIMALS,
    change,
    count,
    has_own_unit,
    in_unit,
    joined,
    own_number,
    setting_words,
    shown,
    with_interval,
)
from tasks.report.model import (
    ChampionSummary,
    HeldOutScores,
    ReportData,
    ReportedInterval,
    ReportedNoiseFloor,
    SensitiveColumn,
    TrialSummary,
)
from tasks.report.tables import within_sentence
from tasks.select.results import Finding

FELL, ROSE, SAME = "fell", "rose", "cannot be told from unchanged"


@dataclass(frozen=True)
class Comparison:
    """The chosen model beside the same one with nothing removed, on the same held-out rows."""

    before: HeldOutScores
    after: HeldOutScores
    changes: HeldOutScores  # after minus before, with the interval of that difference


def compare(report: ReportData) -> Comparison | None:
    """Return before and after; None where nothing was removed, or nothing to compare was run."""
    champion, chosen = report.champion, report.chosen
    if not champion or not chosen or chosen.removes_nothing:
        return None
    if not champion.reference or not champion.changes:
        return None
    return Comparison(champion.reference, champion.held_out, champion.changes)


def effect_of(found: ReportedInterval) -> str:
    """Return which way a number went, as far as the interval of its change can tell."""
    if found.high < 0:
        return FELL
    return ROSE if found.low > 0 else SAME


def dependence_sentences(report: ReportData, comparison: Comparison) -> tuple[str, ...]:
    """Return how the dependence on every column changed, each direction in its own sentence."""
    told = [sentence for column in report.columns for sentence in _directions(column, comparison)]
    opening = "Compared with the same model with nothing removed (on the same held-out rows), "
    return (f"{opening}{told[0][0].lower()}{told[0][1:]}", *told[1:]) if told else ()


def _directions(column: SensitiveColumn, comparison: Comparison) -> list[str]:
    """Return what fell, what rose, what did neither, on one column."""
    moves = _moves(column.name, comparison)
    by = {effect: joined(told) for effect, told in moves.items()}
    its = f"Its dependence on {column.words}"
    sentences = {
        FELL: f"{its} fell by {by.get(FELL)}.",
        ROSE: f"{its} rose by {by.get(ROSE)}: more of it is there than with nothing removed.",
        SAME: f"{its} by {by.get(SAME)} cannot be told from unchanged.",
    }
    return [sentence for effect, sentence in sentences.items() if effect in by]


def _moves(column: str, comparison: Comparison) -> dict[str, list[str]]:
    """Return by effect the measures of one column with their numbers before and after."""
    before, after = comparison.before.scores[column], comparison.after.scores[column]
    changes = comparison.changes.scores[column]
    by_effect: dict[str, list[str]] = {}
    for name, words in REPORTED.items():
        if name in changes:
            numbers = (shown(side[name].value, words.decimals) for side in (before, after))
            told = f"{words.label} ({' to '.join(numbers)})"
            by_effect.setdefault(effect_of(changes[name]), []).append(told)
    return by_effect


def effect_word(report: ReportData, comparison: Comparison) -> str:
    """Return which way the dependence on what was removed went, in a word or two."""
    found = {
        effect
        for column in report.columns
        if column.removed
        for effect in _moves(column.name, comparison)
    }
    return " and ".join(effect for effect in (FELL, ROSE) if effect in found) or "within noise"


def cost_sentence(report: ReportData, comparison: Comparison) -> str:
    """Return how the error changed by the removal."""
    before, after = comparison.before.mae.value, comparison.after.mae.value
    first, then = (own_number(value, report.target) for value in (before, after))
    moved = f"from {first} to {in_unit(after, report.target)} ({change(before, after)})"
    effect = effect_of(comparison.changes.mae)
    if effect != SAME and first == then:
        # Of a million rows an interval is narrower than the last figure.
        return (
            f"It cost next to no accuracy: the mean absolute error {effect}, but by less than its "
            f"figures show ({in_unit(after, report.target)} before and after)."
        )
    if effect == ROSE:
        return f"The price is accuracy: the mean absolute error rose {moved}."
    if effect == FELL:
        return f"It cost no accuracy: the mean absolute error fell {moved}."
    return f"The mean absolute error went {moved}, which cannot be told from unchanged."


def standing_sentence(report: ReportData, found: HeldOutScores) -> str:
    """Return the dependence as it stands, where there is nothing to compare it with."""
    columns = [
        f"on {column.words} {joined(_numbers(found, column.name))}" for column in report.columns
    ]
    error = in_unit(found.mae.value, report.target)
    return (
        f"On the held-out rows its dependence is, {'; '.join(columns)}; "
        f"its mean absolute error is {error}."
    )


def _numbers(found: HeldOutScores, column: str) -> list[str]:
    """Return the measures on one column."""
    scores = found.scores[column]
    return [
        f"{words.label} {shown(scores[name].value, words.decimals)}"
        for name, words in REPORTED.items()
        if name in scores
    ]


def removed_words(report: ReportData) -> str:
    """Return what was removed, as an enumeration."""
    return joined(report.removed or [c.words for c in report.columns if c.removed])


def task_sentence(report: ReportData) -> str:
    """Return what was predicted from what, what was to be removed."""
    data = report.data
    columns = f"{count(data.inputs)} columns of data" if data.inputs else "data"
    removed = removed_words(report)
    aim = f", leaning as little as possible on {removed}" if removed else ""
    return (
        f"Models were trained to predict {report.target.title} from {columns} "
        f"on {count(data.rows_used)} {data.row_noun} ({report.problem}){aim}."
    )


def finding_of(report: ReportData) -> Finding:
    """Return what a run found, in a few words and in sentences."""
    broken, comparison = broken_limits(report), compare(report)
    if not report.chosen:
        word = "no champion"
    elif report.chosen.dummy:
        word = "a constant"
    elif report.chosen.removes_nothing:
        word = "nothing removed"
    else:
        word = effect_word(report, comparison) if comparison else "not compared"
    words = ("limit broken", word) if broken else (word,)
    return Finding("; ".join(words), broken, result_sentences(report))


def result_sentences(report: ReportData) -> tuple[str, ...]:
    """Return what was chosen, what it changed, what that cost."""
    champion, chosen = report.champion, report.chosen
    if not champion or not chosen:
        nothing = report.no_champion or "No model was chosen; the figures show what can be had."
        return (nothing, *_undefined_sentences(report))
    told = _chosen_sentences(report, champion, chosen)
    sentences = (*told, *_undefined_sentences(report), within_sentence(report))
    return tuple(filter(None, sentences))


def _undefined_sentences(report: ReportData) -> tuple[str, ...]:
    """Return one sentence per column on which a measure is undefined."""
    held_out = [report.champion.held_out.scores] if report.champion else []
    known = [*(trial.scores for trial in report.trials), *held_out]
    return tuple(
        f"{measure.label} on {column.words} is undefined: {measure.undefined}."
        for column in report.columns
        for name, measure in REPORTED.items()
        if any(name not in scores[column.name] for scores in known)
    )


def _chosen_sentences(
    report: ReportData, champion: ChampionSummary, chosen: TrialSummary
) -> tuple[str, ...]:
    """Return the sentences on a chosen model, empty ones among them."""
    opening = (f"The chosen model is {setting_words(chosen)}.", _within_noise(champion))
    found, noise = champion.held_out, _noise_sentences(report, champion.held_out)
    standing = standing_sentence(report, found)
    if chosen.dummy:
        constant = "It is a constant: it leans on nothing, and tells no two cases apart."
        return (*opening, constant, standing)
    if chosen.removes_nothing:
        removed = removed_words(report) or "anything"
        nothing = f"It removes nothing: whatever its inputs say of {removed} acts unhindered."
        return (*opening, nothing, standing, *noise)
    comparison = compare(report)
    if comparison is None:
        unknown = (
            "The same model with nothing removed was no trial, so what the removal changed, and "
            "what it cost, is not known."
        )
        return (*opening, unknown, standing, *noise)
    return (
        *opening,
        *dependence_sentences(report, comparison),
        *noise,
        cost_sentence(report, comparison),
    )


def _within_noise(champion: ChampionSummary) -> str:
    """Return that the most accurate model was chosen as it is not unfair beyond noise."""
    if not champion.policy.within_noise:
        return ""
    label = MEASURES[champion.policy.measure].label
    return (
        f"It is the most accurate model, and was chosen because its {label} on the inner folds "
        f"does not exceed the noise floor: by {label} no model is fairer beyond noise."
    )


def broken_limits(report: ReportData) -> tuple[str, ...]:
    """Return one sentence per limit that the chosen model breaks on the held-out rows."""
    champion = report.champion
    if not champion:
        return ()
    sentences = []
    for name, limit in champion.limits.items():
        for column in report.columns:
            found = champion.held_out.scores[column.name].get(name)
            subject = f"{MEASURES[name].label} on {column.words} is"
            if found is None:
                sentences.append(
                    f"A limit cannot be checked: {subject} undefined on the held-out rows."
                )
            elif found.value > limit:
                sentences.append(
                    f"The chosen model breaks its limit: {subject} "
                    f"{with_interval(found, MEASURES[name].decimals)} on the held-out rows, above "
                    f"{limit:g}."
                )
    return tuple(sentences)


def noise_floors_of(
    report: ReportData, column: SensitiveColumn
) -> Mapping[str, ReportedNoiseFloor]:
    """Return the noise floors of the held-out rows, else those of a test fold, by measure."""
    held_out = report.champion.noise_floor if report.champion else {}
    return held_out.get(column.name, column.noise_floor)


def _noise_sentences(report: ReportData, found: HeldOutScores) -> tuple[str, ...]:
    """Return one sentence per measure with a noise floor: whether what is left exceeds it."""
    sentences = (_noise_sentence(report, found, measure) for measure in REPORTED.values())
    return tuple(filter(None, sentences))


def _noise_sentence(report: ReportData, found: HeldOutScores, measure: Measure) -> str:
    """Return whether the remaining dependence exceeds the noise floor of one measure."""
    known = [
        (column, floor, found.scores[column.name][measure.name].value)
        for column in report.columns
        if (floor := noise_floors_of(report, column).get(measure.name))
        and measure.name in found.scores[column.name]
    ]
    if not known:
        return ""
    real = [column.words for column, floor, value in known if value > floor.upper]
    none = [column.words for column, floor, value in known if value <= floor.upper]
    label = measure.label
    seen = f"An independent prediction would have {label} of about {known[0][1].mean:.2f}"
    if not none:
        return f"{seen}, so the dependence that is left is real, not noise."
    if not real:
        return f"{seen}, so the {label} that is left cannot be told from none."
    return (
        f"{seen}, so what is left on {joined(real)} is real, "
        f"what is left on {joined(none)} cannot be told from none."
    )


@dataclass(frozen=True)
class Tile:
    """One number with what it was before."""

    title: str
    value: str
    change: str  # what it was before, how much of the change is more than noise


def tiles_of(report: ReportData) -> tuple[Tile, ...]:
    """Return error, then the measures on every column; none without a comparison."""
    comparison = compare(report)
    if not comparison:
        return ()
    measures = [_measures(report, column, comparison) for column in report.columns]
    return (_error(report, comparison), *itertools.chain.from_iterable(measures))


def _error(report: ReportData, comparison: Comparison) -> Tile:
    """Return the error, in the target's own unit where it has one."""
    before, after = comparison.before.mae.value, comparison.after.mae.value
    if has_own_unit(report.target):
        words = in_unit(after, report.target), in_unit(before, report.target)
    else:
        words = shown(after, MAE_DECIMALS), shown(before, MAE_DECIMALS)
    changed = _changed(change(before, after), words[1], comparison.changes.mae)
    return Tile("Mean absolute error", words[0], changed)


def _measures(report: ReportData, column: SensitiveColumn, comparison: Comparison) -> list[Tile]:
    """Return the measures on one column."""
    name = column.name
    before, after = comparison.before.scores[name], comparison.after.scores[name]
    return [
        Tile(
            f"{info.label}, {info.title if len(report.columns) == 1 else column.words}",
            shown(after[measure].value, info.decimals),
            _changed(
                change(before[measure].value, after[measure].value),
                shown(before[measure].value, info.decimals),
                comparison.changes.scores[name][measure],
            ),
        )
        for measure, info in REPORTED.items()
        if measure in comparison.changes.scores[name]
    ]


def _changed(percent: str, before: str, found: ReportedInterval) -> str:
    """Return the change in words; a direction is named only where there is one."""
    effect = effect_of(found)
    if effect in ("fell", "rose"):
        return f"{effect} {percent}, from {before}".replace("fell −", "fell ").replace("+", "")
    return f"within noise of {before}"


@dataclass(frozen=True)
class Limit:
    """One caution: a few words, then the reason."""

    title: str
    text: str


def limits_of(report: ReportData) -> tuple[Limit, ...]:
    """Return the cautions that hold for this report, the weightiest first."""
    return (
        _DECISIONS,
        _misuse(report),
        _REDUCED,
        _MEASURES,
        *_needs_sensitive(report),
        *_searched(report),
        *_stored_rows(report),
        _weights(report),
        _one_data_set(report),
        _FOLDS,
    )


_DECISIONS = Limit(
    "A fairer model is not a reason to automate.",
    "This report takes no side on whether such a decision should be left to a model at all. "
    "Models of this kind are in use and affect people; the numbers above can inform that "
    "debate, they cannot settle it.",
)
_REDUCED = Limit(
    "Reduced is not absent.",
    "The method removes what a ridge regression finds about the attribute, step by step. Some "
    "dependence stays, and nothing was done about attributes that are not named here, nor about "
    "combinations of them. A low value of one measure on these rows certifies no model as fair.",
)
_MEASURES = Limit(
    "The measures exclude each other.",
    "HGR and GDP ask that predictions do not depend on the attribute. PF asks that cases are "
    "ranked equally well given their true values. Where the truth itself varies with the "
    "attribute, no useful model has both, so which measure counts is a decision for people. "
    "HGR and GDP are smoothed estimates, to be compared within this report only.",
)
_FOLDS = Limit(
    "Spread over folds is not a confidence interval.",
    "Deviations over the test folds (divided by their number) understate the doubt, as folds share "
    "most of their training rows. Intervals, where given, are about other rows for the same "
    "models: they do not tell how models would differ that were trained on other rows.",
)


def _misuse(report: ReportData) -> Limit:
    """Erasing can be turned against those it should protect."""
    attribute = removed_words(report) or "an attribute"
    return Limit(
        "Removal can be turned against people.",
        "The same tool can erase what should count: a group's real contribution or need can be "
        f"declared a bias, then taken out. Who asked for the removal of {attribute}, and whom it "
        "helps or harms, belongs on the table together with this report.",
    )


def _needs_sensitive(report: ReportData) -> tuple[Limit, ...]:
    """Return a caution where a method asks for the attribute of the case at hand."""
    labels = dict.fromkeys(trial.label for trial in report.trials if trial.needs_sensitive)
    if not labels:
        return ()
    return (
        Limit(
            "Some methods need the attribute to predict.",
            f"Marked † in every figure: {', '.join(labels)}. To use them, the attribute must be "
            "asked of everybody, which may be unlawful or unwelcome.",
        ),
    )


def _searched(report: ReportData) -> tuple[Limit, ...]:
    """Return a caution where folds test on rows that helped to search for parameters."""
    labels = dict.fromkeys(trial.label for trial in report.trials if trial.searched)
    if not labels:
        return ()
    return (
        Limit(
            "Searched parameters look a little too good in the figures.",
            f"Marked ‡ in the table of trials: {', '.join(labels)}. Their parameters were searched "
            "on rows that all folds but the held-out one test on, so their means over folds "
            "flatter them. The numbers on held-out rows do not: those rows took no part.",
        ),
    )


def _stored_rows(report: ReportData) -> tuple[Limit, ...]:
    """Return a caution where the model's file holds rows of the training data."""
    champion = report.champion
    if not champion or not champion.stored_rows:
        return ()
    rows = count(champion.stored_rows)
    cure = (
        "A Nystroem approximation keeps only a chosen number of landmark rows, random Fourier "
        "features keep none."
        if champion.approximation == "exact"
        else "They are the landmarks of the approximation; random Fourier features would keep none."
    )
    return (
        Limit(
            "The model's file contains data.",
            f"A kernel model predicts by comparing with rows it has seen, so its file holds {rows} "
            f"encoded training rows. Whoever gets the file gets those rows. {cure}",
        ),
    )


def _weights(report: ReportData) -> Limit:
    """Numbers describe rows, not a population."""
    weight, weighed = report.data.survey_weight, report.data.weighed
    if weighed:
        return Limit(
            f"Rows count by {weight}.",
            f"Rows were weighed in {joined(weighed)}, scaled so that one counts once on average. "
            "Intervals take a heavy row for the one row that it is. What is not named here counts "
            "every row once: the checks of drift, proxies and collapse, the correlations of inputs "
            "with the attribute, the numbers of rows.",
        )
    if weight:
        return Limit(
            "Survey weights were not used.",
            f"Every row counts the same, although the survey supplies weights ({weight}). The "
            "numbers describe the people sampled, not the population they stand for.",
        )
    return Limit(
        "Every row counts the same.",
        f"No survey weights were used, so the numbers describe these {report.data.row_noun}, not a "
        "population.",
    )


def _one_data_set(report: ReportData) -> Limit:
    """No claim beyond these rows."""
    return Limit(
        "One data set, one time.",
        f"All figures come from {report.problem}. Another place, another year or another way of "
        "recording can change both the errors and the dependence; measure again before use, and "
        "again while in use.",
    )
