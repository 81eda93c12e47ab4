"""The versions of a registered model, with what the registry says of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from configs.errors import UserError
from tasks.adapters.registry import CHAMPION, Promotion, require_model, told
from tasks.adapters.settings import Settings
from tasks.adapters.timed_client import TimedClient
from tasks.adapters.tracked import CHAMPION_TAG
from tasks.adapters.tracking import prepare_stores


@dataclass(frozen=True)
class KnownVersion:
    """One version of a registered model."""

    model: str
    version: int
    tags: Mapping[str, str]
    created: datetime
    is_champion: bool

    @property
    def run(self) -> str:
        """The parent run on which its files lie; empty for one that fkd did not register."""
        return self.tags.get("fkd.run", "")

    @property
    def key(self) -> str:
        """What the champion is found by."""
        return self.tags.get(CHAMPION_TAG, "")

    @property
    def promotion(self) -> Promotion | None:
        """The decision of the person who promoted it, None if nobody did."""
        return Promotion.from_tags(self.tags)

    @property
    def title(self) -> str:
        """What people call it."""
        return self.tags.get("fkd.title", f"version {self.version}")


def versions_of(settings: Settings, model: str) -> list[KnownVersion]:
    """Return every version, the first one first; a model that is not registered is told."""
    prepare_stores(settings)
    client = TimedClient(settings)

    def work() -> list[KnownVersion]:
        require_model(client, model)
        (registered,) = client.search_registered_models(f"name = '{model}'")
        champion = registered.aliases.get(CHAMPION)
        found = client.search_model_versions(f"name = '{model}'")
        return sorted(
            (
                KnownVersion(
                    model,
                    int(one.version),
                    dict(one.tags),
                    datetime.fromtimestamp(one.creation_timestamp / 1000, UTC),
                    str(one.version) == str(champion),
                )
                for one in found
            ),
            key=lambda one: one.version,
        )

    return told(settings, work)


def champion_version(settings: Settings, model: str) -> KnownVersion:
    """Return the version that is served; a model without one is told."""
    versions = versions_of(settings, model)
    for version in versions:
        if version.is_champion:
            return version
    raise UserError(
        f"{model} has no champion, only {len(versions)} versions that the gate refused; promote "
        f"one by `fkd promote {model} --version N --who ... --why ...`."
    )


def tag_version(settings: Settings, version: KnownVersion, tags: Mapping[str, str]) -> None:
    """Put tags on a version."""
    client = TimedClient(settings)

    def work() -> None:
        for name, value in tags.items():
            client.set_model_version_tag(version.model, str(version.version), name, value)

    told(settings, work)
