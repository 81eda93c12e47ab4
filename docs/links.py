"""Follow every internal link of the built site: pages, files, places within pages.

Run as `python docs/links.py build/site`; ends with 1 where a link leads nowhere.
"""

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and the places in it that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of an element."""
        given = dict(attrs)
        self.links |= {link for name in ("href", "src") if (link := given.get(name))}
        self.places |= {place for name in ("id", "name") if (place := given.get(name))}


def html_pages(site: Path) -> list[Path]:
    """Return the pages of the site; among the static files the theme leaves templates."""
    found = sorted(site.rglob("*.html"))
    return [path for path in found if "_static" not in path.relative_to(site).parts]


def broken_links(site: Path) -> Iterator[str]:
    """Yield the links that lead nowhere, each with its page."""
    pages = {path.resolve(): Page(path.read_text()) for path in html_pages(site)}
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            aim = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            if aim.is_dir():
                aim = aim / "index.html"
            place = unquote(parts.fragment)
            lost = aim in pages and place not in pages[aim].places
            if not aim.exists() or not aim.is_relative_to(site.resolve()) or lost:
                yield f"{path.relative_to(site.resolve())}: {link} leads nowhere"


def main(folder: str) -> int:
    """Return 0 if every link of the site leads somewhere, 1 if not."""
    site = Path(folder)
    pages = len(html_pages(site))
    broken = list(broken_links(site))
    out = sys.stderr if broken or not pages else sys.stdout
    out.write("\n".join([*broken, f"{pages} pages, {len(broken)} broken internal links", ""]))
    return int(bool(broken) or not pages)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
