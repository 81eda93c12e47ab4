"""Format values as text, and render HTML pages that need no other file."""

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from fkd.core.arrays import Array
from fkd.measures import MEASURES
from tasks.report.model import Estimate, ReportedNumber, TargetColumn, TrialSummary
from tasks.select.results import value_text

# Nothing is fetched and no script runs.
CONTENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)


def render_page(
    name: str,
    *,
    title: str,
    package: str = "tasks.report",
    policy: str = CONTENT_POLICY,
    **content: Any,
) -> str:
    """Return a page from a template of a package, which extends `base.html.j2`."""
    css = Markup(resource("report.css"))
    return (
        templates(package).get_template(name).render(title=title, policy=policy, css=css, **content)
    )


@cache
def templates(package: str) -> Environment:
    """Return the templates of a package and of this one.

    They escape every value and raise an error for an undefined name.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("tasks.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"count": count, "day": day, "duration": duration, "joined": joined}
    return environment


def resource(name: str) -> str:
    """Return a file from the templates folder."""
    return (files("tasks.report") / "templates" / name).read_text(encoding="utf-8")


def markdown_html(text: str, *, deeper: int = 0) -> Markup:
    """Return Markdown as HTML. HTML inside it is shown as text.

    Tables scroll in a region that can be focused. Their cells have their headings as attributes,
    for narrow screens.

    Parameters
    ----------
    text
        Markdown.
    deeper
        The number of levels by which headings are lowered.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    tokens = parser.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + deeper)}"
    return Markup(parser.renderer.render([*_with_regions(tokens)], parser.options, {}))


def _with_regions(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield the tokens with a region around every table and a heading on every cell."""

    def raw(html: str) -> Token:
        return Token("html_block", "", 0, content=f"{html}\n")

    headings: list[str] = []
    column = tables = 0
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "table_open":
            headings, tables = [], tables + 1
            region = f'role="region" tabindex="0" aria-label="Table {tables}"'
            yield raw(f'<div class="scroll stacks" {region}>')
        elif token.type == "tr_open":
            column = 0
        elif token.type == "th_open" and following is not None:
            token.attrSet("scope", "col")
            headings.append("".join(part.content for part in following.children or ()))
        elif token.type == "td_open":
            token.attrSet("data-heading", headings[column])
            column += 1
        yield token
        if token.type == "table_close":
            yield raw("</div>")


WIDTH, CURVE_HEIGHT = 420, 270
LEFT, RIGHT, TOP = 80, 8, 10
_LINE = 14  # height of a line of text
_CHARACTER = 6.4  # mean width of a character
_LABEL_LINES = 2
_TICKS = 5
_ROUNDING = 1e-9  # of a logarithm that should be whole
# Ticks of a hundred units or more are shown in this unit.
_UNITS = ((1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class DrawnCurve:
    """One line of a figure with its bands.

    Parameters
    ----------
    label
        The text of the legend.
    look
        The class in the style sheet that sets colour and dashes: model, other or truth, and noise.
    points, values
        The line.
    inner, outer
        Low and high ends of the pointwise band and of the band of the whole curve.
    """

    label: str
    look: str
    points: Array
    values: Array
    inner: tuple[Array, Array] | None = None
    outer: tuple[Array, Array] | None = None


@dataclass(frozen=True)
class CurveFigure:
    """Curves on one pair of axes.

    Parameters
    ----------
    title, x_label, y_label, caption
        Texts.
    curves
        The curves.
    zero
        If True, the range includes zero, with a line.
    ticks
        Marks at the foot of the figure.
    name
        The id under which a page contains the figure once to show it in several places.
    """

    title: str
    x_label: str
    y_label: str
    curves: tuple[DrawnCurve, ...]
    caption: str = ""
    zero: bool = False
    ticks: tuple[float, ...] = ()
    name: str = ""

    @property
    def alt(self) -> str:
        """The text alternative."""
        texts = [
            f"{curve.label}: from {curve.values[0]:.4g} at {curve.points[0]:.4g} to "
            f"{curve.values[-1]:.4g} at {curve.points[-1]:.4g}, between {curve.values.min():.4g} "
            f"and {curve.values.max():.4g}"
            for curve in self.curves
        ]
        return f"{self.y_label} along {self.x_label}. {'; '.join(texts)}."

    @property
    def inside(self) -> Markup:
        """The content of the SVG element."""
        x = np.concatenate([curve.points for curve in self.curves])
        bands = [
            end
            for curve in self.curves
            for band in ((curve.values,), curve.inner, curve.outer)
            for end in band or ()
        ]
        left, right = float(x.min(axis=0)), float(x.max(axis=0))
        if left == right:
            left, right = left - 1.0, right + 1.0
        y_range = padded(np.concatenate(bands), 0.05, zero=self.zero)
        axes = Axes((left, right), y_range, self.x_label, self.y_label)
        drawn = Markup("").join(_curve(axes, curve) for curve in self.curves)
        return axes.frame(self.ticks, zero=self.zero) + drawn

    @property
    def svg(self) -> Markup:
        """The SVG element."""
        return element(self.alt, self.inside)

    @property
    def reference(self) -> Markup:
        """An SVG element that shows `inside`, which the page contains under the id `name`."""
        return element(self.alt, Markup('<use href="#{}"/>').format(self.name))


@dataclass(frozen=True)
class Axes:
    """A pair of axes: ranges, labels and the height of the drawing."""

    x: tuple[float, float]
    y: tuple[float, float]
    x_label: str
    y_label: str
    height: int = CURVE_HEIGHT

    @property
    def foot(self) -> float:
        """The y coordinate of the lower axis."""
        return self.height - 32 - _LINE * max(1, len(self._x_lines))

    @property
    def _x_lines(self) -> list[str]:
        return _label_lines(self.x_label, WIDTH - LEFT - RIGHT)

    def across(self, value: float) -> float:
        """Return the x coordinate of a value."""
        low, high = self.x
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def up(self, value: float) -> float:
        """Return the y coordinate of a value."""
        low, high = self.y
        return self.foot - (value - low) / (high - low) * (self.foot - TOP)

    def line(self, x: Array, y: Array) -> str:
        """Return the coordinates of a polyline."""
        pairs = zip(x, y, strict=True)
        return " ".join(f"{self.across(a):.1f},{self.up(b):.1f}" for a, b in pairs)

    def frame(self, marks: Sequence[float] = (), *, zero: bool = False) -> Markup:
        """Return grid, tick labels and axis labels, with marks on the lower axis."""
        parts = []
        foot, end = self.foot, WIDTH - RIGHT
        for tick, text in ticks(*self.y):
            y = self.up(tick)
            parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{end}"/>')
            parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" class="end">{escape(text)}</text>')
        for tick, text in ticks(*self.x):
            x = self.across(tick)
            parts.append(f'<path class="grid" d="M{x:.1f} {TOP}V{foot}"/>')
            parts.append(f'<text x="{x:.1f}" y="{foot + 16}" class="middle">{escape(text)}</text>')
        parts += [
            f'<path class="tick" d="M{self.across(at):.1f} {foot}v-6"/>'
            for at in marks
            if self.x[0] <= at <= self.x[1]
        ]
        if zero:
            parts.append(f'<path class="zero" d="M{LEFT} {self.up(0.0):.1f}H{end}"/>')
        middle = (LEFT + end) / 2
        for i, text in enumerate(self._x_lines):
            y = foot + 20 + _LINE * (i + 1)
            parts.append(f'<text x="{middle:.0f}" y="{y}" class="middle">{escape(text)}</text>')
        for i, text in enumerate(_label_lines(self.y_label, foot - TOP)):
            place = f"translate({13 + _LINE * i} {(TOP + foot) / 2:.0f}) rotate(-90)"
            parts.append(f'<text transform="{place}" class="middle">{escape(text)}</text>')
        return Markup("".join(parts))


def padded(values: Array, share: float, *, zero: bool = False) -> tuple[float, float]:
    """Return a range that contains all values with a margin, and 0 if `zero`."""
    low, high = float(values.min(axis=0)), float(values.max(axis=0))
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    margin = share * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin


def element(
    alt: str, inside: Markup, *, height: int = CURVE_HEIGHT, role: str = "img", look: str = "curve"
) -> Markup:
    """Return an SVG element with a text alternative."""
    return Markup('<svg class="{}" viewBox="0 0 {} {}" role="{}" aria-label="{}">{}</svg>').format(
        look, WIDTH, height, role, alt, inside
    )


def ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return about five round numbers within a range, with the fewest decimals that differ."""
    raw = (high - low) / _TICKS
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= raw)
    values = [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
    greatest = max((abs(value) for value in values), default=0.0)
    scale, letter = next(((u, w) for u, w in _UNITS if greatest >= 100 * u), (1.0, ""))
    step = step / scale if len(values) > 1 else 1.0
    decimals = max(0, -math.floor(math.log10(step) + _ROUNDING))
    if round(step * 10**decimals, 6) % 1:
        decimals += 1  # steps of 2.5
    # Adding zero turns -0 into 0.
    texts = (f"{round(value / scale, decimals) + 0.0:.{decimals}f}{letter}" for value in values)
    return list(zip(values, texts, strict=True))


def _label_lines(label: str, length: float) -> list[str]:
    """Return an axis label in at most two lines; the text alternative has all of it."""
    width = int(length / _CHARACTER)
    return textwrap.wrap(label, width, max_lines=_LABEL_LINES, placeholder="…")


def _curve(axes: Axes, curve: DrawnCurve) -> Markup:
    """Return bands, the line, and dots if there are few points."""
    parts = []
    for band, name in ((curve.outer, "outer"), (curve.inner, "inner")):
        if band is not None:
            forth = axes.line(curve.points, band[0])
            back = axes.line(curve.points[::-1], band[1][::-1])
            parts.append(f'<polygon class="{name}" points="{forth} {back}"/>')
    parts.append(f'<polyline points="{axes.line(curve.points, curve.values)}"/>')
    if len(curve.points) <= 10:
        parts += [
            f'<circle cx="{axes.across(x):.1f}" cy="{axes.up(y):.1f}" r="3"/>'
            for x, y in zip(curve.points, curve.values, strict=True)
        ]
    return Markup('<g class="{}">{}</g>').format(curve.look, Markup("".join(parts)))


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


def strength_text(trial: TrialSummary) -> str:
    """Return the strength with its name, empty if the method has none."""
    return f"{trial.strength_name} {trial.strength:g}" if trial.strength_name else ""


def params_text(trial: TrialSummary) -> str:
    """Return the other parameters as name = value."""
    return ", ".join(f"{name} = {value_text(value)}" for name, value in trial.params.items())


def setting_text(trial: TrialSummary) -> str:
    """Return the method with its strength."""
    strength = strength_text(trial)
    return f"{trial.label} with {strength}" if strength else trial.label


def joined(words: Sequence[str]) -> str:
    """Return words as an English enumeration."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
