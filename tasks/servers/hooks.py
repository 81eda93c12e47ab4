"""Whoever wants to know how a run ended is told."""

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import httpx

from configs.errors import UserError
from configs.hooks import WITHHELD, HookConfig, HooksConfig, is_reference, withheld
from tasks.storage.settings import read_secret, scrubbed
from tasks.track.client import within


def check_hooks(hooks: HooksConfig) -> None:
    """Refuse, before any work, a hook that could not be called at its end."""
    for key, given in hooks.given():
        try:
            resolved(given)
        except UserError as error:
            raise UserError(f"{key}: {error}") from None


def literal_webhooks(hooks: HooksConfig) -> list[str]:
    """Return the keys under which a web address is written out in the configuration."""
    return [key for key, given in hooks.given() if withheld(given) != given]


def resolved(given: str) -> str:
    """Return an address or word as it is meant: the content of what env: or file: names."""
    if is_reference(given):
        return read_secret(given)
    if WITHHELD in given and withheld(given) == given:
        raise UserError(
            f"{given} is what is left of an address when a configuration is written out; give it "
            "again as env:NAME or file:PATH, or leave the hooks out by --set 'hooks={}'."
        )
    return given


def tell(hook: HookConfig, message: Mapping[str, Any]) -> tuple[str, ...]:
    """Give the message to the hook's command and web address; return what failed, in sentences.

    A hook that fails never changes what was computed.
    """
    # An error of somebody else's may quote an address with a password.
    text = json.dumps({key: _plain(value) for key, value in message.items()})
    problems = []
    if hook.command and (fault := _call(hook, text)):
        program = withheld(hook.command[0])
        problems.append(f"The hook command {program!r} failed: {fault}.")
    if hook.address and (fault := _post(hook.address, text, hook.timeout)):
        problems.append(f"The webhook {withheld(hook.address)} failed: {fault}.")
    return tuple(problems)


def _plain(value: Any) -> Any:
    """Return a value of a message without anybody's credentials."""
    return scrubbed(value) if isinstance(value, str) else value


def _call(hook: HookConfig, text: str) -> str | None:
    """Run the command with the message on its standard input; return what went wrong."""
    try:
        words = [resolved(word) for word in hook.command]
    except UserError as error:
        return str(error).removesuffix(".")
    try:
        done = subprocess.run(
            words, input=text, text=True, capture_output=True, timeout=hook.timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it timed out after {hook.timeout:g} s"
    except (OSError, ValueError) as error:
        return _hushed(str(error), words[1:])
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return f"exit code {done.returncode} ({_hushed(last, _secrets(hook.command, words))})"
    return None


def _post(address: str, text: str, timeout: float) -> str | None:
    """Send the message to the address; return what went wrong, never the address."""
    headers = {"content-type": "application/json"}
    try:
        url = resolved(address)
        within(
            timeout,
            lambda: httpx.post(
                url, content=text, headers=headers, timeout=timeout
            ).raise_for_status(),
        )
    except UserError as error:
        return str(error).removesuffix(".")
    except httpx.HTTPStatusError as error:
        return f"it answered with status {error.response.status_code}"
    except (httpx.UnsupportedProtocol, httpx.InvalidURL, UnicodeError):
        return "what is given is no web address"
    except (httpx.HTTPError, OSError) as error:
        return _hushed(str(error) or type(error).__name__, [url])
    return None


def _secrets(given: Sequence[str], words: Sequence[str]) -> list[str]:
    """Return the words that stand behind env: and file:."""
    return [word for name, word in zip(given, words, strict=True) if word != name]


def _hushed(text: str, secrets: Iterable[str]) -> str:
    """Return somebody else's words without secrets, as one line."""
    for secret in filter(None, secrets):
        text = text.replace(secret, WITHHELD)
    return " ".join(withheld(text).split())
