"""Remove credentials from addresses and texts before they are shown."""

import re
from urllib.parse import parse_qsl, unquote

_ADDRESS = re.compile(r"(?i)\b[a-z][a-z0-9+.-]*://\S+")
_SECRET = re.compile(r"(?i)user|uid|pass|pwd|token|secret|key|auth|cred|sig|odbc_connect")


def without_credentials(address: str) -> str:
    """Return an address without user, password, secret parameters and fragment."""
    scheme, colon, rest = address.partition("://")
    if not colon:
        return address
    path, mark, query = rest[_userinfo_end(rest) :].partition("#")[0].partition("?")
    kept = [pair for pair in query.split("&") if not _SECRET.search(unquote(pair.split("=")[0]))]
    return f"{scheme}://{path}{mark if any(kept) else ''}{'&'.join(kept)}"


def credentials(address: str) -> set[str]:
    """Return each user, password and token of an address, as written and percent-decoded."""
    _, _, rest = address.partition("://")
    found = set(rest[: _userinfo_end(rest)].removesuffix("@").split(":", 1))
    query = rest.partition("#")[0].partition("?")[2]
    found |= {value for name, value in parse_qsl(query) if _SECRET.search(name)}
    found |= {pair.partition("=")[2] for pair in query.split("&") if _SECRET.search(pair)}
    return {text for secret in found for text in (secret, unquote(secret)) if text}


def scrubbed(text: str, *addresses: str) -> str:
    """Return a text without the credentials of the addresses in it and of these addresses."""
    shown = _ADDRESS.sub(lambda found: without_credentials(found[0]), text)
    secrets = {secret for address in addresses for secret in credentials(address)}
    for secret in sorted(secrets, key=len, reverse=True):
        shown = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "***", shown)
    return shown


def _userinfo_end(rest: str) -> int:
    """Return the position behind `user:password@` in the part after `://`, 0 without it.

    A password may contain any of `/`, `?`, `#`, `@`, though it should not. The supposed port is
    then not a number.
    """
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" in authority:
        return authority.rindex("@") + 1
    _, colon, port = authority.rpartition(":")
    if colon and not port.isdigit() and not authority.endswith("]") and "@" in rest:
        return rest.rindex("@") + 1
    return 0


def plain_markdown(text: str) -> str:
    """Return a text with all Markdown characters escaped."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#" else c for c in text)
