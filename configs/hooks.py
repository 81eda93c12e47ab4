"""Hooks: commands and web addresses that are called at the end of a run."""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, SecretStr

from configs.errors import UserError
from configs.model import Frozen

WITHHELD = "***"
_ADDRESS = re.compile(r"(?i)\bhttps?://[^\s'\"<>]*")
_PLACE = re.compile(
    r"(?i)(https?://)(?:[^/?#]*@)?([\w.-]+(?::\d+)?|\[[\da-f:.]+\](?::\d+)?)(?=[/?#]|$)"
)


def withheld(text: str) -> str:
    """Return a text whose web addresses are cut to their hosts: what follows may be a secret."""
    return _ADDRESS.sub(lambda found: _cut(found[0]), text)


def _cut(address: str) -> str:
    """Return scheme and host of an address; not even them where they cannot be told apart."""
    place = _PLACE.match(address)
    return f"{place[1]}{place[2]}/{WITHHELD}" if place else f"https://{WITHHELD}"


def is_reference(word: str) -> bool:
    """Return whether a word only says where the secret is: env:NAME or file:PATH."""
    # A program may be handed the address of a file, which begins by file:// instead.
    return word.startswith("env:") or (word.startswith("file:") and word[5:7] != "//")


def _a_webhook(value: Any) -> Any:
    """Refuse what is no web address, without repeating it."""
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    known = isinstance(text, str) and (is_reference(text) or re.match(r"(?i)https?://.", text))
    if known and len(text) > len("file:"):
        return text
    raise ValueError(
        "webhook must be env:NAME, file:PATH or an address that begins by http:// or https://; "
        "what was given is not repeated here, for it may be a secret"
    )


Webhook = Annotated[
    SecretStr,
    BeforeValidator(_a_webhook),
    PlainSerializer(lambda secret: withheld(secret.get_secret_value()), return_type=str),
]
Words = Annotated[
    tuple[str, ...],
    PlainSerializer(lambda words: [withheld(word) for word in words], return_type=list[str]),
]


class HookConfig(Frozen):
    """What is told of a run's end: a command, a web address, or both.

    The address, or a word of the command, may be env:NAME or file:PATH. A value of this class holds
    what was given; everything that is made of it, such as config.yaml, has hosts instead of
    addresses.
    """

    command: Words = Field(default=(), repr=False)  # gets the outcome as JSON on its standard input
    webhook: Webhook | None = None  # gets it as a POST
    timeout: float = Field(default=30.0, gt=0)  # seconds for either

    @property
    def address(self) -> str | None:
        """The web address as it was given."""
        return None if self.webhook is None else self.webhook.get_secret_value()


class HooksConfig(Frozen):
    """Whom to tell when a run has succeeded or failed."""

    on_success: HookConfig = Field(default_factory=HookConfig)
    on_failure: HookConfig = Field(default_factory=HookConfig)

    def given(self) -> Iterator[tuple[str, str]]:
        """Yield every address and word of all hooks with the key under which it stands."""
        for key, hook in (("on_success", self.on_success), ("on_failure", self.on_failure)):
            yield from ((f"hooks.{key}.command", word) for word in hook.command)
            if hook.address is not None:
                yield f"hooks.{key}.webhook", hook.address


def refuse_kept_addresses(overrides: Iterable[str]) -> None:
    """Refuse changes by `--set` that would put an address into the database of a schedule."""
    for text in overrides:
        path, _, value = text.partition("=")
        if path.strip().startswith("hooks") and withheld(value) != value:
            raise UserError(
                f"--set {path.strip()} of a schedule is kept in Prefect's database, where an "
                "address with its secret must not stand; write env:NAME or file:PATH, or put it "
                "into the configuration file."
            )
