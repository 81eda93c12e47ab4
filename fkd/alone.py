"""Check that one distribution owns this package.

`fkd` (the application) and `fkd-core` (the library) contain the same files. Installers let one
overwrite the other without a warning, and the result may be a mixture of two versions.
"""

from importlib.metadata import PackageNotFoundError, version

OWNERS = ("fkd", "fkd-core")


def check_alone() -> None:
    """Raise ImportError if both distributions are installed."""
    found = [f"{name} {number}" for name in OWNERS if (number := _installed(name)) is not None]
    if len(found) > 1:
        raise ImportError(
            "fkd must come from one distribution, because both have the same files, but "
            f"{' and '.join(found)} are installed. Run `pip uninstall --yes "
            f"{' '.join(OWNERS)}`, then install one of them.",
            name="fkd",
        )


def _installed(name: str) -> str | None:
    """Return the version of a distribution, None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


# At import, because other modules of a mixture may fail before a call.
check_alone()
