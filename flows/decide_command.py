"""The command that writes down which model was taken, for people to say why."""

from pathlib import Path

from rich.console import Console

from configs.decision import read_decision, write_decision
from configs.errors import UserError
from configs.load import load_config
from flows.command_options import Overrides
from tasks.adapters.files import write_atomic
from tasks.adapters.settings import read_settings
from tasks.study.decision_export import decision_of
from tasks.study.opening import open_study
from tasks.study.selection import NoChampionError


def decide(
    config: str = "default",
    /,
    *,
    who: str = "",
    why: str = "",
    out: Path = Path("decision.yaml"),
    overrides: Overrides = (),
) -> None:
    """Write the decision on a finished run as YAML, which later runs quote.

    Parameters
    ----------
    config
        A YAML file, or the name of a shipped one.
    who
        Who decides: a role or free text; empty if not said.
    why
        The reason; empty if not said.
    out
        Where it is written; a file with words of a person in it is not written over.
    """
    found = load_config(config, overrides)
    study = open_study(found, read_settings())
    if study.missing():
        raise UserError(f"{found.name} is not finished; compute it by `fkd run` first.")
    if out.exists() and _has_words(out):
        raise UserError(
            f"{out} holds a decision in a person's words, which is not written over; name another "
            "file by --out."
        )
    try:
        decision = decision_of(study, who, why)
    except NoChampionError as error:
        raise UserError(f"there is nothing to decide on in {found.name}: {error}") from None
    write_atomic(out, write_decision(decision).encode())
    console = Console(markup=False, highlight=False)
    console.print(str(out), soft_wrap=True)
    if decision.is_open:
        console.print("who and why are open: write them into the file.")


def _has_words(path: Path) -> bool:
    """Return whether somebody has written who decided, or why."""
    found = read_decision(path)
    return bool(found.who.strip() or found.why.strip())
