"""Sentences on what was done, what is left, what it cost."""

from collections.abc import Mapping

from fkd.measures import MEASURES, REPORTED, Measure
from tasks.report.contents import (
    ChampionSummary,
    HeldOutScores,
    ReportData,
    ReportedNoiseFloor,
    SensitiveColumn,
    TrialSummary,
)
from tasks.report.effect import (
    compare,
    cost_sentence,
    dependence_sentences,
    effect_word,
    standing_sentence,
)
from tasks.report.within_tables import within_sentence
from tasks.report.words import count, joined, setting_words, with_interval
from tasks.study.finding import Finding


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
