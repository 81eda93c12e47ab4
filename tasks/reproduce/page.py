"""The report of a reproduction as one HTML page, and a short text."""

import base64
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from configs.reproduction import reading_words
from tasks.report.formatting import duration, shown
from tasks.report.html import page_template, resource
from tasks.reproduce.claims import COUNTS, Verdict, headline
from tasks.reproduce.result import Story
from tasks.storage.files import write_atomic

WIDTH = 130.0
_MARGIN = 0.06  # of the scale, on both sides: room for a marker at an end


@dataclass(frozen=True)
class Bar:
    """Where an interval lies, and where the claim is true, in units of the drawing."""

    true_from: float
    true_to: float
    low: float
    value: float
    high: float


def bars(verdicts: Sequence[Verdict]) -> list[Bar | None]:
    """Return a bar per verdict, none where there is no interval; equal units share a scale."""
    scales: dict[str, list[float]] = defaultdict(list)
    for verdict in verdicts:
        scales[verdict.unit] += _numbers(verdict)
    return [_bar(verdict, scales[verdict.unit]) for verdict in verdicts]


def _numbers(verdict: Verdict) -> list[float]:
    """Return what a scale has to show: the interval and the ends of the claim's region."""
    shown = (verdict.low, verdict.value, verdict.high, verdict.true_above, verdict.true_below)
    return [number for number in shown if number is not None]


def _bar(verdict: Verdict, scale: Sequence[float]) -> Bar | None:
    if verdict.low is None or verdict.value is None or verdict.high is None:
        return None
    start = min(scale)
    # Where nothing varies any width will do.
    span = (max(scale) - start) or 1.0

    def place(number: float) -> float:
        return WIDTH * (_MARGIN + (1 - 2 * _MARGIN) * (number - start) / span)

    return Bar(
        true_from=0.0 if verdict.true_above is None else place(verdict.true_above),
        true_to=WIDTH if verdict.true_below is None else place(verdict.true_below),
        low=place(verdict.low),
        value=place(verdict.value),
        high=place(verdict.high),
    )


_HEADS = ("claim", "verdict", "number", "95 % interval", "folds", "by RMSE", "interval")


def write_page(stories: Sequence[Story], folder: Path) -> Path:
    """Write report.html with every experiment in it, summary.md beside it; return the page."""
    template = page_template("tasks.reproduce", "reproduction.html.j2")
    images = {
        (story.name, run): _image_address(folder / story.name / file)
        for story in stories
        for run, file in story.figures.items()
    }
    page = folder / "report.html"
    verdicts = [verdict for story in stories for verdict in story.verdicts]
    text = template.render(
        stories=stories,
        images=images,
        counts=COUNTS,
        css=Markup(
            resource("tasks.report", "report.css") + resource("tasks.reproduce", "reproduction.css")
        ),
        headlines=[headline(verdicts, ours=ours) for ours in (False, True)],
        readings=list(dict.fromkeys(reading_words(s.reading) for s in stories if s.reading)),
        synthetic=any("SYNTHETIC" in text for story in stories for text in story.rows.values()),
        number=number,
        interval=lambda verdict: span(verdict.low, verdict.high),
        span=span,
        seeds_of=seeds_of,
        bars={story.name: bars(story.verdicts) for story in stories},
        bar_width=WIDTH,
        duration=duration,
        shown=shown,
    )
    write_atomic(page, text.encode())
    write_atomic(folder / "summary.md", summary(stories).encode())
    return page


def _image_address(png: Path) -> str:
    """Return a PNG file as an address that contains it."""
    return "data:image/png;base64," + base64.b64encode(png.read_bytes()).decode()


def number(value: float | None) -> str:
    """Return three figures of a statistic, signed by a real minus."""
    if value is None:
        return ""
    text = f"{value:.3g}" if abs(value) >= 1e-4 or value == 0 else f"{value:.1e}"
    return text.replace("-", "−")


def span(low: float | None, high: float | None) -> str:
    """Return an interval, nothing where there is none."""
    return "" if low is None else f"{number(low)} to {number(high)}"


def summary(stories: Sequence[Story]) -> str:
    """Return the verdicts as Markdown."""
    verdicts = [verdict for story in stories for verdict in story.verdicts]
    lines = [f"{headline(verdicts, ours=ours)}\n" for ours in (False, True)]
    lines += ["| experiment | " + " | ".join(COUNTS) + " |", "| --- | " + "--- | " * len(COUNTS)]
    lines += [
        f"| {story.name} {story.title} | "
        + " | ".join(str(story.count(as_)) for as_ in COUNTS)
        + " |"
        for story in stories
    ]
    for story in stories:
        lines += ["", f"## {story.name}: {story.title}", "", story.question, ""]
        lines += [f"{text}\n" for text in _caveats(story)]
        several = any(verdict.seeds for verdict in story.verdicts)
        heads = [*_HEADS, *(["seeds", "seeds, by RMSE"] if several else [])]
        lines += ["| " + " | ".join(heads) + " |", "| --- " * len(heads) + "|"]
        lines += [_summary_row(verdict, seeds=several) for verdict in story.verdicts]
        lines += _recovered_lines(story)
    return "\n".join(lines) + "\n"


def _recovered_lines(story: Story) -> list[str]:
    """Return what can be guessed from curves' features as a Markdown table, nothing without any."""
    if not story.recovered:
        return []
    heads = ("data", "curve", "setting", "column", "HGR", "probe", "R² before", "R² after")
    rows = [
        (
            *(row[name] for name in ("run", "curve", "setting", "column")),
            f"{row['hgr']:.3f}",
            row["probe"],
            *(f"{row[name]:.3f} ± {row[name + '_std']:.3f}" for name in ("before", "after")),
        )
        for row in story.recovered
    ]
    table = [heads, ("---",) * len(heads), *rows]
    return ["", *("| " + " | ".join(cells) + " |" for cells in table)]


def _caveats(story: Story) -> list[str]:
    """Return why verdicts say nothing about the paper, or not under its reading, if so."""
    quick = ["A quick run: its verdicts say nothing about the paper."] if story.quick else []
    words = reading_words(story.reading)
    reading = [f"Read otherwise than published: {words}."] if words else []
    unread = [f"{run} is not judged again: {why}." for run, why in story.unread.items()]
    synthetic = [f"{run}: {text}." for run, text in story.rows.items() if "SYNTHETIC" in text]
    return quick + reading + unread + synthetic


def seeds_of(verdict: Verdict, *, rmse: bool = False) -> str:
    """Return between which numbers a claim's own lies over seeds, under how many it is true."""
    true, low, high = (
        (verdict.rmse_seeds_true, verdict.rmse_seeds_low, verdict.rmse_seeds_high)
        if rmse
        else (verdict.seeds_true, verdict.seeds_low, verdict.seeds_high)
    )
    return "" if true is None else f"{span(low, high)}; true in {true} of {verdict.seeds}"


def _summary_row(verdict: Verdict, *, seeds: bool) -> str:
    """Return one claim as a row of a Markdown table."""
    folds = "" if verdict.folds is None else f"{verdict.folds_true} of {verdict.folds}"
    constant = f" ({verdict.collapsed} is a constant)" if verdict.collapsed else ""
    cells = (
        verdict.says,
        verdict.told + constant,
        number(verdict.value),
        span(verdict.low, verdict.high),
        folds,
        number(verdict.rmse_value),
        span(verdict.rmse_low, verdict.rmse_high),
        *((seeds_of(verdict), seeds_of(verdict, rmse=True)) if seeds else ()),
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
