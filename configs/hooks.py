"""Hooks: commands and webhooks that are called at the end of a run."""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, SecretStr

from configs.data import Frozen
from configs.errors import UserError

MASK = "***"
_ADDRESS = re.compile(r"(?i)\bhttps?://[^\s'\"<>]*")
_HOST = re.compile(
    r"(?i)(https?://)(?:[^/?#]*@)?([\w.-]+(?::\d+)?|\[[\da-f:.]+\](?::\d+)?)(?=[/?#]|$)"
)


def mask_addresses(text: str) -> str:
    """Return a text with each web address reduced to its host. The rest may be a secret."""

    def mask(found: re.Match[str]) -> str:
        host = _HOST.match(found[0])
        # Without a clear host, the supposed host may be part of a password.
        return f"{host[1]}{host[2]}/{MASK}" if host else f"https://{MASK}"

    return _ADDRESS.sub(mask, text)


def is_reference(word: str) -> bool:
    """Return True if a word refers to a secret: env:NAME or file:PATH."""
    # The address of a file, file://..., may be an argument of a program.
    return word.startswith("env:") or (word.startswith("file:") and word[5:7] != "//")


def _check_webhook(value: Any) -> Any:
    """Refuse a value that is no web address, without repeating it."""
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    valid = isinstance(text, str) and (is_reference(text) or re.match(r"(?i)https?://.", text))
    if valid and len(text) > len("file:"):
        return text
    raise ValueError(
        "webhook must be env:NAME, file:PATH or an address that begins with http:// or https://; "
        "the value received is not shown, because it may be a secret"
    )


Webhook = Annotated[
    SecretStr,
    BeforeValidator(_check_webhook),
    PlainSerializer(lambda secret: mask_addresses(secret.get_secret_value()), return_type=str),
]


Words = Annotated[
    tuple[str, ...],
    PlainSerializer(lambda words: [mask_addresses(word) for word in words], return_type=list[str]),
]


class HookConfig(Frozen):
    """A command, a webhook, or both, which get the result of a run.

    The address, or a word of the command, may be env:NAME or file:PATH. An object of this class
    holds the given values. Serialized forms, such as config.yaml, have masked addresses.
    """

    command: Words = Field(default=(), repr=False)
    """Program with arguments. It gets the result as JSON on its standard input."""
    webhook: Webhook | None = None
    """Address to which the result is posted as JSON."""
    timeout: float = Field(default=30.0, gt=0)
    """Seconds for the command, and for the webhook."""

    @property
    def address(self) -> str | None:
        """The given address of the webhook."""
        return None if self.webhook is None else self.webhook.get_secret_value()


class HooksConfig(Frozen):
    """The hooks of a run by its result."""

    on_success: HookConfig = Field(default_factory=HookConfig)
    on_failure: HookConfig = Field(default_factory=HookConfig)

    def values(self) -> Iterator[tuple[str, str]]:
        """Yield each given address and word with its key."""
        for key, hook in (("on_success", self.on_success), ("on_failure", self.on_failure)):
            yield from ((f"hooks.{key}.command", word) for word in hook.command)
            if hook.address is not None:
                yield f"hooks.{key}.webhook", hook.address


def check_schedule_overrides(overrides: Iterable[str]) -> None:
    """Raise UserError if a change by `--set` would store an address in Prefect's database."""
    for text in overrides:
        path, _, value = text.partition("=")
        if path.strip().startswith("hooks") and mask_addresses(value) != value:
            raise UserError(
                f"--set {path.strip()} of a schedule must not contain an address, because it is "
                "stored in Prefect's database. Write env:NAME or file:PATH, or set the address in "
                "the configuration file."
            )
