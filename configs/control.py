"""Within groups of which columns a report measures."""

from configs.own_columns import check_columns


def check_control(
    control: tuple[str, ...],
    columns: tuple[str, ...],
    *,
    measured: tuple[str, ...],
    dropped: tuple[str, ...],
) -> None:
    """Refuse columns that the table will not have, and those that the measures are about.

    Parameters
    ----------
    control
        The names under `data.control`.
    columns
        Every column of the problem.
    measured
        The columns of `data.measure_on`.
    dropped
        The columns of `data.drop`.
    """
    for name in control:
        if name in measured:
            raise ValueError(
                f"data.control must not name a measured column, got {name!r}: within its groups "
                "there is next to nothing left to measure; name a column that may decide"
            )
        if name in dropped:
            raise ValueError(
                f"data.control must name a column that the table keeps, got {name!r}, which "
                "data.drop leaves out"
            )
    kept = tuple(name for name in columns if name not in (*measured, *dropped))
    check_columns(control, kept, key="data.control", may_be_empty=True)
