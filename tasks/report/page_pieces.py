"""Pieces of an HTML page that needs no other file."""

import base64
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markdown_it import MarkdownIt
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

    Headings go down by so many levels, where the page uses those above itself.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    tokens = parser.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + deeper)}"
    return Markup(parser.renderer.render(tokens, parser.options, {}))
