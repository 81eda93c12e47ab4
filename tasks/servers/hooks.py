"""Hooks: commands and webhooks that are called at the end of a run."""

import json
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any

import httpx

from configs.errors import UserError
from configs.run import MASK, HookConfig, HooksConfig, is_reference, mask_addresses
from tasks.storage.settings import read_secret, scrubbed
from tasks.track.client import within


def check_hooks(hooks: HooksConfig) -> None:
    """Raise UserError if a hook refers to a secret that cannot be read."""
    for key, value in hooks.values():
        try:
            _resolve(value)
        except UserError as error:
            raise UserError(f"{key}: {error}") from None


def literal_webhooks(hooks: HooksConfig) -> list[str]:
    """Return the keys whose values contain a web address instead of a reference."""
    return [key for key, value in hooks.values() if mask_addresses(value) != value]


def call_hook(hook: HookConfig, message: Mapping[str, Any]) -> tuple[str, ...]:
    """Send a message to the command and the webhook of a hook. Return a sentence per failure.

    A hook that fails does not change the result of the run.
    """
    # The message may quote an error of another program, which contains an address with a password.
    plain = {k: scrubbed(v) if isinstance(v, str) else v for k, v in message.items()}
    text = json.dumps(plain)
    problems = []
    if hook.command and (fault := _run(hook, text)):
        program = mask_addresses(hook.command[0])
        problems.append(f"The hook command {program!r} failed: {fault}.")
    if hook.address and (fault := _post(hook.address, text, hook.timeout)):
        problems.append(f"The webhook {mask_addresses(hook.address)} failed: {fault}.")
    return tuple(problems)


def _resolve(value: str) -> str:
    """Return an address or a word. A reference (env:, file:) is replaced by its content."""
    if is_reference(value):
        return read_secret(value)
    if MASK in value and mask_addresses(value) == value:
        raise UserError(
            f"{value} is an address that was masked when the configuration was written. Give the "
            "address as env:NAME or file:PATH, or remove the hooks by --set 'hooks={}'."
        )
    return value


def _run(hook: HookConfig, text: str) -> str | None:
    """Run the command with the message on its standard input. Return the failure."""
    try:
        words = [_resolve(word) for word in hook.command]
    except UserError as error:
        return str(error).removesuffix(".")
    try:
        done = subprocess.run(
            words, input=text, text=True, capture_output=True, timeout=hook.timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it timed out after {hook.timeout:g} s"
    except (OSError, ValueError) as error:
        return _masked_line(str(error), words[1:])
    if not done.returncode:
        return None
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    secrets = [word for word, name in zip(words, hook.command, strict=True) if word != name]
    return f"exit code {done.returncode} ({_masked_line(last, secrets)})"


def _post(address: str, text: str, timeout: float) -> str | None:
    """Post the message to the address. Return the failure, without the address."""

    def post() -> None:
        headers = {"content-type": "application/json"}
        httpx.post(url, content=text, headers=headers, timeout=timeout).raise_for_status()

    try:
        url = _resolve(address)
        within(timeout, post)
    except UserError as error:
        return str(error).removesuffix(".")
    except httpx.HTTPStatusError as error:
        return f"it answered with status {error.response.status_code}"
    except (httpx.UnsupportedProtocol, httpx.InvalidURL, UnicodeError):
        return "the value is no web address"
    except (httpx.HTTPError, OSError) as error:
        return _masked_line(str(error) or type(error).__name__, [url])
    return None


def _masked_line(text: str, secrets: Iterable[str]) -> str:
    """Return a message of another program in one line, without secrets."""
    for secret in filter(None, secrets):
        text = text.replace(secret, MASK)
    return " ".join(mask_addresses(text).split())
