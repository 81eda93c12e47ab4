"""Render HTML pages that need no other file."""

from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from tasks.report.formatting import count, day, duration, joined

# Nothing is fetched and no script runs.
CONTENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)


def render_page(name: str, *, title: str, policy: str = CONTENT_POLICY, **content: Any) -> str:
    """Return a page of this package; the template escapes every value."""
    css = Markup(resource("tasks.report", "report.css"))
    return page_template("tasks.report", name).render(
        title=title, policy=policy, css=css, **content
    )


def page_template(package: str, name: str) -> Template:
    """Return a template that escapes every value and raises an error for an undefined name."""
    environment = Environment(
        loader=FunctionLoader(lambda part: resource(package, part)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"count": count, "day": day, "duration": duration, "joined": joined}
    return environment.get_template(name)


def resource(package: str, name: str) -> str:
    """Return a file from the templates folder of an installed package."""
    return (files(package) / "templates" / name).read_text(encoding="utf-8")


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
