"""The figures of a model along a sensitive column."""

from fkd.measures import CurveBand, LeakingFunction, Profile
from fkd.measures.profiles import (
    ABSOLUTE,
    ERROR,
    GAIN,
    OTHER_ABSOLUTE,
    OTHER_ERROR,
    OTHER_PREDICTION,
    PREDICTION,
    TARGET,
)
from tasks.report.along_contents import AlongWords
from tasks.report.svg_curves import CurveFigure, DrawnCurve

MODEL, OTHER, TRUTH = "model", "other", "truth"
NOISE = "noise"  # beside one of these: a curve that cannot be told from chance


def along_figures(
    profile: Profile, column: str, words: AlongWords, floor: float | None = None
) -> tuple[CurveFigure, ...]:
    """Return what is predicted, which way and how far it is off, who gains, what leaks.

    Parameters
    ----------
    profile
        The means.
    column, words
        What the page calls the column, then everything else.
    floor
        The HGR up to which dependence cannot be told from none; None where it is unknown.
    """
    figures = [
        _figure(
            profile,
            column,
            words,
            ("What is predicted", f"mean {words.target}{_counted(words)}"),
            ((TARGET, "true value", TRUTH), *_both(profile, words, PREDICTION, OTHER_PREDICTION)),
        ),
        _figure(
            profile,
            column,
            words,
            ("Too high or too low", f"prediction minus truth{_counted(words)}"),
            _both(profile, words, ERROR, OTHER_ERROR),
            zero=True,
            caption="Above the line predictions are too high on average, below it too low.",
        ),
        _figure(
            profile,
            column,
            words,
            ("How far off", f"mean absolute error{_counted(words)}"),
            _both(profile, words, ABSOLUTE, OTHER_ABSOLUTE),
        ),
    ]
    if GAIN in profile.curves:
        figures.append(
            _figure(
                profile,
                column,
                words,
                (
                    "Who gains, who loses",
                    f"predicted more or less{_counted(words)}",
                ),
                ((GAIN, f"{words.model} minus {words.other}", MODEL),),
                zero=True,
                caption=f"How much more the {words.model} predicts for the same row. Whether more "
                "is better depends on what is predicted.",
            )
        )
    leaks = _leaks(profile, column, words, floor)
    return (*figures, leaks) if leaks else tuple(figures)


def _both(
    profile: Profile, words: AlongWords, model: str, other: str
) -> tuple[tuple[str, str, str], ...]:
    """Return the names of the curves of one or two models with their labels and looks."""
    compared = ((other, words.other, OTHER),) if other in profile.curves else ()
    return (*compared, (model, words.model, MODEL))


def _figure(
    profile: Profile,
    column: str,
    words: AlongWords,
    titles: tuple[str, str],
    curves: tuple[tuple[str, str, str], ...],
    *,
    zero: bool = False,
    caption: str = "",
) -> CurveFigure:
    """Return some curves of a profile on one pair of axes."""
    title, y_label = titles
    drawn = tuple(drawn_curve(profile.curves[name], label, look) for name, label, look in curves)
    ends = tuple(group.ranges[0][1] for group in profile.groups[:-1])
    return CurveFigure(title, column, y_label, drawn, caption, zero, ends)


def drawn_curve(curve: CurveBand, label: str, look: str) -> DrawnCurve:
    """Return a curve as it is drawn."""
    return DrawnCurve(
        label,
        look,
        curve.points,
        curve.mean,
        (curve.low, curve.high),
        (curve.lowest, curve.highest),
    )


def _leaks(
    profile: Profile, column: str, words: AlongWords, floor: float | None
) -> CurveFigure | None:
    """Return the functions of the column that either model gives away most, noise as such."""
    known: list[tuple[LeakingFunction, str, str]] = [
        (leak, label, look)
        for leak, label, look in (
            (profile.other_leak, words.other, OTHER),
            (profile.leak, words.model, MODEL),
        )
        if leak is not None
    ]
    if not known:
        return None
    drawn, noisy = [], []
    for leak, label, look in known:
        if floor is not None and leak.correlation <= floor:
            noisy.append(label)
            told, look = f"HGR {leak.correlation:.3f}, within noise", f"{look} {NOISE}"
        else:
            told = f"HGR {leak.correlation:.3f}"
        drawn.append(DrawnCurve(f"{label} ({told})", look, leak.points, leak.values))
    caption = (
        "Of all functions of the column this one can be told best from the predictions; HGR is how "
        "closely. A straight line: more or less of it shows. A bowl: the middle is told from the "
        "ends."
    )
    if noisy:
        caption += (
            f" Independent columns read an HGR of up to {floor:.3f}: a thin grey curve "
            f"({', '.join(noisy)}) may be noise, its shape says nothing."
        )
    return CurveFigure(
        "What leaks most", column, "in standard deviations", tuple(drawn), caption, zero=True
    )


def _counted(words: AlongWords) -> str:
    """Return the unit in brackets."""
    return f" ({words.unit})" if words.unit else ""
