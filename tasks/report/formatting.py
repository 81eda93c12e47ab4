"""Format numbers, units and settings for readers."""

import math
from collections.abc import Sequence
from datetime import datetime

from fkd.measures import MEASURES
from tasks.report.model import Estimate, ReportedNumber, Scalar, TargetColumn, TrialSummary

ABSENT = "–"
MAE_DECIMALS = 4


def shown(value: float, decimals: int) -> str:
    """Return a number with thousands separators, or a dash if it is not finite."""
    if not math.isfinite(value):
        return ABSENT
    text = f"{value:,.{decimals}f}"
    # -0.000 would read as a direction.
    return text.lstrip("-") if float(text.replace(",", "")) == 0.0 else text.replace("-", "−")


def with_std(number: ReportedNumber, decimals: int) -> str:
    """Return mean ± standard deviation."""
    if number.std is None or not math.isfinite(number.std):
        return shown(number.mean, decimals)
    return f"{shown(number.mean, decimals)} ± {shown(number.std, decimals)}"


def with_interval(estimate: Estimate, decimals: int) -> str:
    """Return a value followed by its interval."""
    value, low, high = (shown(number, decimals) for number in estimate)
    # A narrow cell wraps between value and interval, never inside the interval.
    return f"{value} ({low}\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}{high})"


def measure_label(name: str) -> str:
    """Return the label of a declared measure, or of an error such as the MAE."""
    return MEASURES[name].label if name in MEASURES else name.upper()


def measure_decimals(name: str) -> int:
    """Return the decimals of a declared measure, or of an error."""
    return MEASURES[name].decimals if name in MEASURES else MAE_DECIMALS


def has_own_unit(target: TargetColumn) -> bool:
    """Return whether errors in the unit of the target differ from scaled errors."""
    return target.scale != 1.0


def unit_decimals(value: float) -> int:
    """Return the number of decimals that leaves about three significant digits."""
    if not math.isfinite(value) or value == 0.0:
        return 0
    return max(0, 2 - math.floor(math.log10(abs(value))))


def error_label(target: TargetColumn) -> str:
    """Return the label of the mean absolute error on an axis."""
    unit = f"in {target.unit}" if has_own_unit(target) else "(scaled)"
    return f"MAE of {target.title} {unit}"


def own_number(value: float, target: TargetColumn) -> str:
    """Return a scaled error in the unit of the target, without the unit."""
    if not has_own_unit(target):
        return shown(value, MAE_DECIMALS)
    own = value * target.scale
    return shown(own, unit_decimals(own))


def in_unit(value: float, target: TargetColumn) -> str:
    """Return a scaled error in the unit of the target, with the unit."""
    unit = target.unit if has_own_unit(target) else "on a scale from 0 to 1"
    return f"{own_number(value, target)} {unit}"


def with_std_in_unit(number: ReportedNumber, target: TargetColumn) -> str:
    """Return a scaled error as mean ± standard deviation in the unit of the target."""
    std = None if number.std is None else number.std * target.scale
    own = ReportedNumber(number.mean * target.scale, std)
    return with_std(own, unit_decimals(own.mean))


def count(number: int) -> str:
    """Return a whole number with thousands separators."""
    return f"{number:,}"


def change(before: float, after: float) -> str:
    """Return the relative change as a signed percentage."""
    if not before or not math.isfinite(after / before):
        return ABSENT
    percent = round(100 * (after / before - 1))
    return f"+{percent} %" if percent > 0 else f"{percent} %".replace("-", "−")


def day(moment: datetime) -> str:
    """Return a date such as 3 November 2026."""
    return f"{moment.day} {moment:%B %Y}"


def duration(seconds: float) -> str:
    """Return a time span in its two largest units."""
    if not math.isfinite(seconds):
        return ABSENT
    if seconds < 10:
        return f"{seconds:.2g} s" if seconds >= 0.1 else "under 0.1 s"
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def scalar(value: Scalar) -> str:
    """Return the value of a parameter, numbers without trailing zeros."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:g}" if isinstance(value, int | float) else value


def strength_text(trial: TrialSummary) -> str:
    """Return the strength with its name, empty if the method has none."""
    return f"{trial.strength_name} {trial.strength:g}" if trial.strength_name else ""


def params_text(trial: TrialSummary) -> str:
    """Return the other parameters as name = value."""
    return ", ".join(f"{name} = {scalar(value)}" for name, value in trial.params.items())


def setting_text(trial: TrialSummary) -> str:
    """Return the method with its strength."""
    strength = strength_text(trial)
    return f"{trial.label} with {strength}" if strength else trial.label


def joined(words: Sequence[str]) -> str:
    """Return words as an English enumeration."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
