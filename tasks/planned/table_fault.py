"""The prepared table that is not there, in a module that loads nothing: commands ask for it too."""


class UnreadableTableError(FileNotFoundError):
    """The prepared table, which a worker or this process cannot read."""
