"""A webhook that the Prefect server calls when a run of ours fails."""

from contextlib import suppress
from typing import Any

from rich.console import Console

from configs.errors import UserError
from tasks.adapters.settings import read_secret, read_settings

_NAME = "fkd-failure"
_TAG = "fkd"  # of every deployment in deploy/prefect.yaml
_ENDS = {"prefect.flow-run.Failed", "prefect.flow-run.Crashed", "prefect.flow-run.TimedOut"}
# Filled by the server; what a state's message says is cut there, in no file of ours.
_PAYLOAD = (
    '{"run": "{{ flow_run.name }}", "state": "{{ flow_run.state.name }}", '
    '"flow": "{{ flow.name }}"}'
)


def tell_failures(*, webhook: str) -> None:
    """Have your Prefect server call a webhook whenever a run with the tag fkd fails.

    Parameters
    ----------
    webhook
        env:NAME or file:PATH, behind which the address stands; the server keeps it as a secret.
    """
    kind, mark, _ = webhook.partition(":")
    if not mark or kind not in ("env", "file"):
        raise UserError("--webhook must be env:NAME or file:PATH; the address itself is a secret.")
    address, url = read_secret(webhook), read_settings().prefect_api_url
    if url is None:
        raise UserError(
            "An automation lives on a Prefect server that stays; set PREFECT_API_URL to yours, "
            "such as http://127.0.0.1:4200/api."
        )
    _automate(address)
    Console(highlight=False).print(
        f"runs with the tag {_TAG} that fail call the webhook of {webhook} (automation {_NAME})"
    )


def _automate(address: str) -> None:
    """Make block and automation on the server, in place of those of an earlier call."""
    from prefect.automations import Automation
    from prefect.blocks.webhook import Webhook
    from prefect.events.actions import CallWebhook
    from prefect.events.schemas.automations import EventTrigger, Posture
    from pydantic import SecretStr

    block = Webhook(method="POST", url=SecretStr(address)).save(_NAME, overwrite=True)
    trigger = EventTrigger(
        expect=_ENDS,
        match_related={
            "prefect.resource.role": "tag",
            "prefect.resource.id": f"prefect.tag.{_TAG}",
        },
        posture=Posture.Reactive,
        threshold=1,
    )
    wanted = Automation(
        name=_NAME,
        description="A run of fkd failed.",
        trigger=trigger,
        actions=[CallWebhook(block_document_id=block, payload=_PAYLOAD)],
    )
    known: Any = Automation  # its methods are synchronous here, which their types leave open
    with suppress(ValueError):  # the first call finds none
        known.read(name=_NAME).delete()
    wanted.create()
