"""What a reproduction made, for the person who started it."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from configs.errors import UserError
from configs.readings import reading_words
from flows.log_lines import is_json, write_line
from flows.result_page import file_link, markdown_table
from tasks.reproduction.story import Story
from tasks.reproduction.tally import COUNTS, headline, is_ours


@dataclass(frozen=True)
class Reproduced:
    """What a reproduction made: its page, its experiments, what could not be done."""

    page: Path | None
    stories: tuple[Story, ...]
    problems: tuple[str, ...]

    def rows(self) -> list[list[str]]:
        """Return how many claims of each experiment got which verdict."""
        return [
            [f"{story.name} {story.title}", *(str(story.count(as_)) for as_ in COUNTS)]
            for story in self.stories
        ]

    def sentences(self) -> list[str]:
        """Return the reading if it is not the published one, then what holds by which error."""
        readings = [reading_words(story.reading) for story in self.stories if story.reading]
        told = [f"Read otherwise than published: {words}." for words in dict.fromkeys(readings)]
        verdicts = [verdict for story in self.stories for verdict in story.verdicts]
        kinds = [ours for ours in (False, True) if any(is_ours(v) == ours for v in verdicts)]
        return told + [headline(verdicts, ours=ours) for ours in kinds]

    def markdown(self) -> str:
        """Return how many claims hold, what could not be done, where the page is."""
        problems = "\n".join(f"- {problem}" for problem in self.problems)
        page = "" if self.page is None else f"report: {file_link(str(self.page))}"
        claims = markdown_table(["experiment", *COUNTS], self.rows())
        return "\n\n".join(filter(None, [*self.sentences(), claims, problems, page]))

    def show(self, seconds: float) -> None:
        """Print how many claims hold, where the page is; as JSON a line for each experiment."""
        if is_json():
            for story in self.stories:
                counts = {as_: story.count(as_) for as_ in COUNTS}
                write_line("info", "result", story.title, run=story.name, claims=counts)
            told = " ".join(self.sentences())
            write_line("info", "result", told, report=self.page, seconds=round(seconds, 3))
            return
        console = Console(highlight=False)
        table = Table(title="Claims, judged", title_justify="left")
        table.add_column("experiment")
        for as_ in COUNTS:
            # No word of a heading is cut, however narrow the terminal.
            table.add_column(as_, justify="right", min_width=max(map(len, as_.split())))
        for row in self.rows():
            table.add_row(*map(escape, row))
        console.print(table)
        for sentence in self.sentences():
            console.print(escape(sentence))
        if self.page is not None:
            console.print(f"[bold]report[/bold]   {escape(str(self.page))}", soft_wrap=True)
        console.print(f"[dim]done in {seconds:.0f} s[/dim]")


class IncompleteError(UserError):
    """Something could not be run, though everything else was: the flow run counts as failed."""

    exit_code = 4

    def __init__(self, found: Reproduced) -> None:
        super().__init__(" ".join(found.problems))
        self.found = found
