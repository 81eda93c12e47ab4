"""The reproduction as one HTML page, with a short text beside it."""

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from tasks.adapters.files import write_atomic
from tasks.report.page_pieces import image_address, page_template, resource
from tasks.report.words import duration, shown
from tasks.reproduction.bars import WIDTH, bars
from tasks.reproduction.story import Story
from tasks.reproduction.verdicts import WORDS, Verdict


def write_page(stories: Sequence[Story], folder: Path) -> Path:
    """Write report.html with every experiment in it, summary.md beside it; return the page."""
    template = page_template("tasks.reproduction", "reproduction.html.j2")
    images = {
        (story.name, run): image_address((folder / story.name / file).read_bytes())
        for story in stories
        for run, file in story.figures.items()
    }
    page = folder / "report.html"
    text = template.render(
        stories=stories,
        images=images,
        words=WORDS,
        css=Markup(
            resource("tasks.report", "report.css")
            + resource("tasks.reproduction", "reproduction.css")
        ),
        paper={word: sum(story.count(word, ours=False) for story in stories) for word in WORDS},
        ours={word: sum(story.count(word, ours=True) for story in stories) for word in WORDS},
        synthetic=any("SYNTHETIC" in text for story in stories for text in story.rows.values()),
        number=number,
        interval=interval,
        bars={story.name: bars(story.verdicts) for story in stories},
        bar_width=WIDTH,
        duration=duration,
        shown=shown,
    )
    write_atomic(page, text.encode())
    write_atomic(folder / "summary.md", summary(stories).encode())
    return page


def number(value: float | None) -> str:
    """Return three figures of a statistic, signed by a real minus."""
    if value is None:
        return ""
    text = f"{value:.3g}" if abs(value) >= 1e-4 or value == 0 else f"{value:.1e}"
    return text.replace("-", "−")


def interval(verdict: Verdict) -> str:
    """Return the interval of a verdict's number, nothing where there is none."""
    if verdict.low is None:
        return ""
    return f"{number(verdict.low)} to {number(verdict.high)}"


def summary(stories: Sequence[Story]) -> str:
    """Return the verdicts as Markdown."""
    lines = ["| experiment | " + " | ".join(WORDS) + " |", "| --- | " + "--- | " * len(WORDS)]
    lines += [
        f"| {story.name} {story.title} | "
        + " | ".join(str(story.count(word)) for word in WORDS)
        + " |"
        for story in stories
    ]
    for story in stories:
        lines += ["", f"## {story.name}: {story.title}", "", story.question, ""]
        lines += [f"{text}\n" for text in _caveats(story)]
        lines += ["| claim | verdict | number | 95 % interval | folds |", "| --- " * 5 + "|"]
        lines += [_summary_row(verdict) for verdict in story.verdicts]
    return "\n".join(lines) + "\n"


def _caveats(story: Story) -> list[str]:
    """Return why verdicts say nothing about the paper, if so."""
    quick = ["A quick run: its verdicts say nothing about the paper."] if story.quick else []
    return quick + [f"{run}: {text}." for run, text in story.rows.items() if "SYNTHETIC" in text]


def _summary_row(verdict: Verdict) -> str:
    """Return one claim as a row of a Markdown table."""
    folds = "" if verdict.folds is None else f"{verdict.folds_true} of {verdict.folds}"
    cells = (verdict.says, verdict.verdict, number(verdict.value), interval(verdict), folds)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
