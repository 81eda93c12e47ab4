"""Whoever wants to know how a run ended is told."""

import json
import subprocess
from collections.abc import Mapping
from typing import Any

import httpx

from configs.schema import HookConfig


def tell(hook: HookConfig, message: Mapping[str, Any]) -> tuple[str, ...]:
    """Give the message to the hook's command and web address; return what failed, in sentences.

    A hook that fails never changes what was computed.
    """
    text = json.dumps(message)
    problems = []
    if hook.command and (fault := _call(hook, text)):
        problems.append(f"The hook command {hook.command[0]!r} failed: {fault}.")
    if hook.webhook and (fault := _post(hook.webhook, text, hook.timeout)):
        problems.append(f"The webhook {hook.webhook} failed: {fault}.")
    return tuple(problems)


def _call(hook: HookConfig, text: str) -> str | None:
    """Run the command with the message on its standard input; return what went wrong."""
    try:
        done = subprocess.run(
            hook.command,
            input=text,
            text=True,
            capture_output=True,
            timeout=hook.timeout,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return f"exit code {done.returncode} ({last})"
    return None


def _post(address: str, text: str, timeout: float) -> str | None:
    """Send the message to the address; return what went wrong."""
    headers = {"content-type": "application/json"}
    try:
        httpx.post(address, content=text, headers=headers, timeout=timeout).raise_for_status()
    except httpx.HTTPError as error:
        return str(error) or type(error).__name__
    return None
