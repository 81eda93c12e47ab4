"""The refusal to be imported where two distributions own this package.

Installers let `fkd` (the application) and `fkd-core` (the library) overwrite each other's files, in
silence. What is then imported may be a mixture of two versions, so nothing is.
"""

from importlib.metadata import PackageNotFoundError, version

OWNERS = ("fkd", "fkd-core")


def check_alone() -> None:
    """Refuse to go on where both distributions are installed."""
    found = [f"{name} {number}" for name in OWNERS if (number := _installed(name)) is not None]
    if len(found) > 1:
        raise ImportError(
            "fkd must come from one distribution, because both have the same files, but "
            f"{' and '.join(found)} are installed here; run `pip uninstall --yes "
            f"{' '.join(OWNERS)}`, then install the one that you want.",
            name="fkd",
        )


def _installed(name: str) -> str | None:
    """Return the version of a distribution, None where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


# At its import, because any other module of a mixture may fail before it could be called.
check_alone()
