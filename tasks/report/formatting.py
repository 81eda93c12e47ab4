"""Numbers and settings in a reader's words."""

import math
from collections.abc import Sequence
from datetime import datetime

from tasks.report.model import ReportedInterval, ReportedNumber, Scalar, TargetColumn, TrialSummary

ABSENT = "–"


MAE_DECIMALS = 4


def shown(value: float, decimals: int) -> str:
    """Return the number with thousands separated, or a dash where there is none."""
    if not math.isfinite(value):
        return ABSENT
    text = f"{value:,.{decimals}f}"
    # A rounded -0.000 would read as a direction.
    return text.lstrip("-") if float(text.replace(",", "")) == 0.0 else text.replace("-", "−")


def with_std(estimate: ReportedNumber, decimals: int) -> str:
    """Return mean ± standard deviation."""
    if estimate.std is None or not math.isfinite(estimate.std):
        return shown(estimate.mean, decimals)
    return f"{shown(estimate.mean, decimals)} ± {shown(estimate.std, decimals)}"


def with_interval(interval: ReportedInterval, decimals: int) -> str:
    """Return the value followed by its interval."""
    low, high = shown(interval.low, decimals), shown(interval.high, decimals)
    # The interval itself never breaks, so a narrow cell wraps between value and interval.
    return f"{shown(interval.value, decimals)} ({low}\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}{high})"


def has_own_unit(target: TargetColumn) -> bool:
    """Return whether an error in the target's unit says more than the scaled one."""
    return target.scale != 1.0


def unit_decimals(value: float) -> int:
    """Return how many decimals leave about three figures."""
    if not math.isfinite(value) or value == 0.0:
        return 0
    return max(0, 2 - math.floor(math.log10(abs(value))))


def unit_words(target: TargetColumn) -> str:
    """Return what an error is counted in."""
    return target.unit if has_own_unit(target) else "on a scale from 0 to 1"


def error_words(target: TargetColumn) -> str:
    """Return what an axis or a heading calls the mean absolute error."""
    if has_own_unit(target):
        return f"MAE of {target.title} in {target.unit}"
    return f"MAE of {target.title} (scaled)"


def own_number(value: float, target: TargetColumn) -> str:
    """Return a scaled error as a bare number in the target's own unit."""
    if not has_own_unit(target):
        return shown(value, MAE_DECIMALS)
    own = value * target.scale
    return shown(own, unit_decimals(own))


def in_unit(value: float, target: TargetColumn) -> str:
    """Return a scaled error as a number with the target's own unit."""
    return f"{own_number(value, target)} {unit_words(target)}"


def estimate_in_unit(estimate: ReportedNumber, target: TargetColumn) -> str:
    """Return a scaled estimate as mean ± standard deviation in the target's own unit."""
    scale = target.scale
    std = None if estimate.std is None else estimate.std * scale
    own = ReportedNumber(estimate.mean * scale, std)
    return with_std(own, unit_decimals(own.mean))


def count(number: int) -> str:
    """Return a whole number with thousands separated."""
    return f"{number:,}"


def change(before: float, after: float) -> str:
    """Return the relative change as a signed percentage."""
    if not before or not math.isfinite(after / before):
        return ABSENT
    percent = round(100 * (after / before - 1))
    return f"+{percent} %" if percent > 0 else f"{percent} %".replace("-", "−")


def day(moment: datetime) -> str:
    """Return the date as it is spoken."""
    return f"{moment.day} {moment:%B %Y}"


def duration(seconds: float) -> str:
    """Return a time span with its two largest units."""
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
    """Return a parameter's value, numbers without trailing zeros."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:g}" if isinstance(value, int | float) else value


def strength_words(trial: TrialSummary) -> str:
    """Return the strength by name, empty for a method that has none."""
    return f"{trial.strength_name} {trial.strength:g}" if trial.strength_name else ""


def params_words(trial: TrialSummary) -> str:
    """Return the other parameters as name = value."""
    return ", ".join(f"{name} = {scalar(value)}" for name, value in trial.params.items())


def setting_words(trial: TrialSummary) -> str:
    """Return method and strength."""
    strength = strength_words(trial)
    return f"{trial.label} with {strength}" if strength else trial.label


def joined(words: Sequence[str]) -> str:
    """Return the words as an English enumeration."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
