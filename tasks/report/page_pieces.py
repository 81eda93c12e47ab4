"""Pieces of an HTML page that needs no other file."""

import base64
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template


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
