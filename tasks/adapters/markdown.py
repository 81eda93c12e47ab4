"""Text for pages that read markdown."""


def plain_markdown(text: str) -> str:
    """Return a text in which nothing is markup."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#" else c for c in text)
