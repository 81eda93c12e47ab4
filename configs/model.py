"""Base class of all configuration models."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A value that cannot change, with no key that it does not know."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        hide_input_in_errors=True,  # it may hold the address of a webhook
    )
