"""Pieces of an HTML page that needs no other file."""

import base64
from collections.abc import Iterator, Sequence
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup


def resource(package: str, name: str) -> str:
    """Return a file of a package's templates folder, wherever the package is installed."""
    return (files(package) / "templates" / name).read_text(encoding="utf-8")


def page_template(package: str, name: str) -> Template:
    """Return a page's template; it escapes every value, refuses a name that it is not given."""
    environment = Environment(
        loader=FunctionLoader(lambda part: resource(package, part)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def image_address(png: bytes) -> str:
    """Return a PNG as an address that needs no file."""
    return "data:image/png;base64," + base64.b64encode(png).decode()


def markdown_html(text: str, *, deeper: int = 0) -> Markup:
    """Return markdown as HTML; raw HTML inside it is shown, never obeyed.

    Headings go down by so many levels, where the page uses those above itself. A table can be
    reached by keyboard where it is wider than the page, its cells say what they are on a phone.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    tokens = parser.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + deeper)}"
    return Markup(parser.renderer.render([*_reachable(tokens)], parser.options, {}))


def _reachable(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield the tokens with every table in a region of its own, each cell with its heading."""
    headings: list[str] = []
    column = tables = 0
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "table_open":
            headings, tables = [], tables + 1
            region = f'role="region" tabindex="0" aria-label="Table {tables}"'
            yield _raw(f'<div class="scroll stacks" {region}>')
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
            yield _raw("</div>")


def _raw(html: str) -> Token:
    """Return HTML of our own as a token."""
    return Token("html_block", "", 0, content=f"{html}\n")
