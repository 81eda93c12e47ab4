"""A store without room, as a sentence."""

from configs.errors import UserError


def full_store(address: str, said: str) -> UserError:
    """Return that a store takes no more, with its cure.

    Parameters
    ----------
    address
        Where the store is.
    said
        How that shows, in a few words.
    """
    return UserError(
        f"the store {address} is full ({said}); free some space there, such as by `fkd clean`, "
        "then run the same command: what was computed is kept."
    )
