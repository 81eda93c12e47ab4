"""What a report does not show, how its model could be misused."""

from dataclasses import dataclass

from tasks.report.contents import ReportData
from tasks.report.text import removed_words
from tasks.report.words import count, joined


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
