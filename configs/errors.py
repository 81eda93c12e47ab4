"""The error that is shown to a person as one sentence."""


class UserError(Exception):
    """A fault that the user can cure: the message names thing, rule, what came, cure."""

    exit_code = 2
