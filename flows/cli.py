"""The command line."""

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NoReturn

from cyclopts import App, CycloptsError, Parameter
from rich.markup import escape

from configs.errors import UserError
from flows.command_options import Axes, Overrides
from flows.errors import NO_MEMORY, as_user_error, check_address_space
from flows.log_lines import check_options, form_variables, is_json, taken_options, write_line
from flows.progress import close_broken_output, console, speak_any_encoding
from tasks.cluster.signals import ignore_interrupt
from tasks.servers.prefect import set_variables
from tasks.storage.settings import quiet_ecosystem, scrubbed

if TYPE_CHECKING:
    from configs.run import RunConfig

# Heavy imports (fkd, prefect, mlflow, distributed) happen inside the commands: `fkd --help` is
# instant, and what they cannot load for want of memory is told.

_STOPPED = "Stopped. What was computed is kept; the same command continues."
_LAST_WORDS = f"fkd: {NO_MEMORY}\n".encode()


def _version() -> str:
    """Return what `fkd --version` prints."""
    from fkd import __version__

    return f"fkd {__version__}"


app = App(
    name="fkd",
    version=_version,
    suppress_keyboard_interrupt=False,  # ours says that nothing is lost
    help="Fair regression with continuous protected attributes, as a pipeline. "
    "Add --debug to any command to see a traceback instead of one sentence; --log-format json and "
    "--log-level debug|info|warning|error to those that run.",
)


@app.command
def run(config: str = "default", /, *, overrides: Overrides = (), dry_run: bool = False) -> None:
    """Compute a configuration's trials, choose a champion, write the report.

    Parameters
    ----------
    config
        A YAML file, or the name of a shipped one.
    dry_run
        Print the plan with its cost, compute nothing.
    """
    from configs.load import load_config

    # Before the slow imports: a mistyped word is answered at once.
    _run([load_config(config, overrides)], dry_run)


@app.command
def sweep(
    config: str, /, *, over: Axes = (), overrides: Overrides = (), dry_run: bool = False
) -> None:
    """Run every combination of the values under a configuration's `sweep`, on one cluster.

    One failing run does not stop the others; the exit code is 3 then.

    Parameters
    ----------
    config
        A YAML file, or the name of a shipped one.
    dry_run
        Print the plan with its cost, compute nothing.
    """
    from configs.load import load_configs

    _run(load_configs(config, overrides, over), dry_run)


def _run(configs: "Sequence[RunConfig]", dry_run: bool) -> None:
    """Run configurations, or print their plan."""
    if dry_run:
        from flows.run import show_plan

        show_plan(configs)
        return
    from flows.run import run_configs

    _begin_run()
    run_configs(configs)


@app.command
def status() -> None:
    """Show running and past runs: done, failed with cause, remaining, rate."""
    from flows.status import show_status

    show_status()


@app.command
def sync() -> None:
    """Record in MLflow what it missed while it did not answer."""
    from flows.sync import sync_all

    sync_all()


@app.command
def report(
    config: str | None = None, /, *, from_store: bool = False, overrides: Overrides = ()
) -> None:
    """Write the report of a configuration again, or bring one from the shared store.

    Parameters
    ----------
    config
        A YAML file, or the name of a shipped one; default if not given.
    from_store
        Bring the report of a finished run of FKD_STORE into this home. CONFIG is then the name of
        the run, NAME~1 for the one before, or the first digits of its identity; without it, the
        runs of the store are listed.
    """
    if from_store:
        if overrides:
            raise UserError("--set must not be given with --from-store, which computes nothing.")
        from flows.store_commands import report_from_store

        report_from_store(config)
        return
    from configs.load import load_config

    source = config or "default"
    found = load_config(source, overrides)
    from flows.run import rewrite_report

    rewrite_report(found, asked=(source, overrides))


@app.command
def schedule(
    config: str = "default",
    /,
    *,
    cron: str | None = None,
    every: float | None = None,
    overrides: Overrides = (),
) -> None:
    """Keep serving a configuration on a schedule, until Ctrl-C.

    Parameters
    ----------
    config
        A YAML file, or the name of a shipped one.
    cron
        When to run, such as "0 3 * * 1": Mondays at three, UTC.
    every
        Instead of cron: seconds between two runs.
    """
    from flows.schedule import serve_schedule

    _begin_run()
    serve_schedule(config, overrides, cron=cron, every=every)


@app.command
def reproduce(
    *names: str,
    without: Annotated[tuple[str, ...], Parameter(help="neural: leave the networks out")] = (),
    quick: bool = False,
    overrides: Overrides = (),
) -> None:
    """Run the paper's experiments, judge its claims, write one page with all of them.

    Parameters
    ----------
    names
        E0 to E10, preprocessing, or all; all if none is named.
    quick
        Few rows, few folds, short grids: shows that everything works, in minutes.
    """
    from flows.reproduce import reproduce_paper

    _begin_run()
    reproduce_paper(names or ("all",), without, overrides, is_quick=quick)


@app.command
def promote(model: str, /, *, version: int, who: str, why: str) -> None:
    """Make a registered version the champion, by a person's decision.

    Parameters
    ----------
    model
        The registered model's name, such as crimes.
    version
        Its version, such as that of @candidate.
    who
        The person or body that decides, kept with the version.
    why
        The reason, kept with the version.
    """
    from flows.model_commands import promote_model

    promote_model(model, version, who, why)


app.command(
    "flows.inspect_commands:check_run",
    name="check",
    help="Print what the checks say of a finished run; an issue ends with exit code 3.",
)
app.command(
    "flows.inspect_commands:audit_file",
    name="audit",
    help="Audit the predictions of any model along sensitive columns.",
)
app.command(
    "flows.monitor:watch_model",
    name="watch",
    help="Look at new rows with a champion; fit anew where something changed.",
)
app.command(
    "flows.data_commands:propose_own",
    name="init",
    help="Look at a table of your own, write a commented YAML that runs on it.",
)
app.command(
    "flows.model_commands:score_rows",
    name="score",
    help="Predict the rows of a table by a registered model.",
)
app.command(
    "flows.inspect_commands:compare_runs",
    name="compare",
    help="Say what differs between two runs: settings, rows, code, numbers.",
)
app.command(
    "flows.store_commands:clean_store",
    name="clean",
    help="Remove old or unused state from the store.",
)
app.command("flows.data_commands:app", name="data", help="Fetch, list, verify or remove data.")


@app.command
def ui() -> None:
    """Start the Prefect and MLflow pages, or point at yours, until Ctrl-C."""
    from flows.status import open_pages

    open_pages()


def _begin_run() -> None:
    """Look whether a run can be gone through here, clear away what killed ones have left."""
    check_address_space(run=True)
    from flows.leftovers import clear_leftovers

    clear_leftovers()


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command; faults that a user can cure are one sentence with exit code 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    # SIGTERM ends like Ctrl-C, so that clusters, servers and half-written files are cleaned up.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    speak_any_encoding()
    quiet_ecosystem()
    words, chosen = taken_options(words)
    with set_variables(form_variables(words, chosen)):
        sys.exit(_call(words, chosen, debug))


def _call(words: list[str], chosen: dict[str, str], debug: bool) -> int:
    """Return the exit code of one command."""
    try:
        check_options(words, chosen)
        check_address_space()
        app(words, exit_on_error=False, print_error=False, result_action="return_none")
        sys.stdout.flush()
    except CycloptsError as error:
        return _show(UserError(f"{_one_line(error)} Try `fkd --help`."), debug)
    except KeyboardInterrupt:
        ignore_interrupt()
        if is_json():
            write_line("warning", "stopped", _STOPPED, exit_code=130)
        else:
            console.print(_STOPPED)
        return 130
    except BrokenPipeError:
        close_broken_output()
        return 1
    except Exception as error:
        try:
            return _show(error, debug)
        except MemoryError:
            # Nothing can be made any more, not even the end of this process.
            os.write(2, _LAST_WORDS)
            os._exit(UserError.exit_code)
    return 0


def _show(error: Exception, debug: bool) -> int:
    """Print an error as a sentence, or whole; return its exit code."""
    told = as_user_error(error)
    if is_json():
        trace = "".join(traceback.format_exception(error)) if debug else None
        write_line("error", "error", str(told), exit_code=told.exit_code, traceback=trace)
    elif debug:
        text = "".join(traceback.format_exception(error))
        sys.stderr.write(scrubbed(text))
    else:
        console.print(f"[bold red]fkd:[/bold red] {escape(scrubbed(str(told)))}", soft_wrap=True)
    return told.exit_code


def _one_line(error: CycloptsError) -> str:
    """Return the parser's message as one line."""
    return " ".join(str(error).split())


if __name__ == "__main__":
    main()
