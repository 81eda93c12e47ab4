"""Write the results of a reproduction as one HTML page and as a short text."""

import base64
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from configs.reproduction import reading_words
from tasks.report.html import CONTENT_POLICY, render_page, shown
from tasks.reproduce.claims import COUNTS, Verdict, headline
from tasks.reproduce.result import ExperimentResult
from tasks.storage.files import write_atomic

WIDTH = 130.0
_MARGIN = 0.06  # of the scale, on both sides: room for a marker at an end
_CLAIM_HEADINGS = ("claim", "verdict", "number", "95 % interval", "folds", "by RMSE", "interval")
_PROBE_HEADINGS = ("data", "curve", "setting", "column", "HGR", "probe", "R² before", "R² after")


@dataclass(frozen=True)
class Bar:
    """An interval and the range in which the claim is true, in units of the drawing."""

    true_from: float
    true_to: float
    low: float
    value: float
    high: float


def bars(verdicts: Sequence[Verdict]) -> list[Bar | None]:
    """Return a bar per verdict, None without an interval. Equal units share a scale."""
    scales: dict[str, list[float]] = defaultdict(list)
    for one in verdicts:
        shown = (one.low, one.value, one.high, one.true_above, one.true_below)
        scales[one.unit] += [number for number in shown if number is not None]
    return [_bar(verdict, scales[verdict.unit]) for verdict in verdicts]


def _bar(verdict: Verdict, scale: Sequence[float]) -> Bar | None:
    if verdict.low is None or verdict.value is None or verdict.high is None:
        return None
    start = min(scale)
    span = (max(scale) - start) or 1.0  # any width will do for equal numbers

    def place(number: float) -> float:
        return WIDTH * (_MARGIN + (1 - 2 * _MARGIN) * (number - start) / span)

    return Bar(
        true_from=0.0 if verdict.true_above is None else place(verdict.true_above),
        true_to=WIDTH if verdict.true_below is None else place(verdict.true_below),
        low=place(verdict.low),
        value=place(verdict.value),
        high=place(verdict.high),
    )


def write_page(results: Sequence[ExperimentResult], folder: Path) -> Path:
    """Write report.html and summary.md of all experiments; return the path of the page."""
    verdicts = [verdict for result in results for verdict in result.verdicts]
    text = render_page(
        "reproduction.html.j2",
        title="The paper's experiments, reproduced",
        package="tasks.reproduce",
        policy=f"{CONTENT_POLICY}; img-src data:",
        results=results,
        images={
            (result.name, run): "data:image/png;base64,"
            + base64.b64encode((folder / result.name / file).read_bytes()).decode()
            for result in results
            for run, file in result.figures.items()
        },
        counts=COUNTS,
        headlines=[headline(verdicts, ours=ours) for ours in (False, True)],
        readings=list(dict.fromkeys(reading_words(r.reading) for r in results if r.reading)),
        synthetic=any("SYNTHETIC" in text for result in results for text in result.rows.values()),
        number=number,
        span=span,
        seeds_of=seeds_of,
        bars={result.name: bars(result.verdicts) for result in results},
        bar_width=WIDTH,
        shown=shown,
    )
    page = folder / "report.html"
    write_atomic(page, text.encode())
    write_atomic(folder / "summary.md", summary(results).encode())
    return page


def number(value: float | None) -> str:
    """Return three digits of a statistic, with a minus sign."""
    if value is None:
        return ""
    text = f"{value:.3g}" if abs(value) >= 1e-4 or value == 0 else f"{value:.1e}"
    return text.replace("-", "−")


def span(low: float | None, high: float | None) -> str:
    """Return an interval, empty if it is unknown."""
    return "" if low is None else f"{number(low)} to {number(high)}"


def seeds_of(verdict: Verdict, *, rmse: bool = False) -> str:
    """Return the range of a statistic over seeds, and under how many the claim is true."""
    true, low, high = (
        (verdict.rmse_seeds_true, verdict.rmse_seeds_low, verdict.rmse_seeds_high)
        if rmse
        else (verdict.seeds_true, verdict.seeds_low, verdict.seeds_high)
    )
    return "" if true is None else f"{span(low, high)}; true in {true} of {verdict.seeds}"


def summary(results: Sequence[ExperimentResult]) -> str:
    """Return the verdicts as Markdown."""
    verdicts = [verdict for result in results for verdict in result.verdicts]
    lines = [f"{headline(verdicts, ours=ours)}\n" for ours in (False, True)]
    rows = [[f"{r.name} {r.title}", *(str(r.count(as_)) for as_ in COUNTS)] for r in results]
    lines += _table(("experiment", *COUNTS), rows)
    for result in results:
        lines += ["", f"## {result.name}: {result.title}", "", result.question, ""]
        lines += [f"{text}\n" for text in _caveats(result)]
        several = any(verdict.seeds for verdict in result.verdicts)
        lines += _table(
            (*_CLAIM_HEADINGS, *(("seeds", "seeds, by RMSE") if several else ())),
            [_claim_row(verdict, seeds=several) for verdict in result.verdicts],
        )
        probes = [
            (
                *(row[name] for name in ("run", "curve", "setting", "column")),
                f"{row['hgr']:.3f}",
                row["probe"],
                *(f"{row[name]:.3f} ± {row[name + '_std']:.3f}" for name in ("before", "after")),
            )
            for row in result.recovered
        ]
        lines += ["", *_table(_PROBE_HEADINGS, probes)] if probes else []
    return "\n".join(lines) + "\n"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [headings, ["---"] * len(headings), *escaped]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def _caveats(result: ExperimentResult) -> list[str]:
    """Return why the verdicts are no verdicts on the paper, or not under its reading."""
    words = reading_words(result.reading)
    return [
        *(["A quick run: its verdicts say nothing about the paper."] if result.quick else []),
        *([f"Read otherwise than published: {words}."] if words else []),
        *(f"{run} is not judged again: {reason}." for run, reason in result.unread.items()),
        *(f"{run}: {text}." for run, text in result.rows.items() if "SYNTHETIC" in text),
    ]


def _claim_row(verdict: Verdict, *, seeds: bool) -> tuple[str, ...]:
    """Return one claim as the cells of a row."""
    constant = f" ({verdict.collapsed} is a constant)" if verdict.collapsed else ""
    return (
        verdict.says,
        verdict.text + constant,
        number(verdict.value),
        span(verdict.low, verdict.high),
        "" if verdict.folds is None else f"{verdict.folds_true} of {verdict.folds}",
        number(verdict.rmse_value),
        span(verdict.rmse_low, verdict.rmse_high),
        *((seeds_of(verdict), seeds_of(verdict, rmse=True)) if seeds else ()),
    )
