"""The command line."""

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from cyclopts import App, CycloptsError, Parameter
from rich.markup import escape

from configs.errors import UserError
from flows.command_options import (
    Axes,
    Overrides,
    check_log_options,
    log_variables,
    split_log_options,
)
from flows.errors import NO_MEMORY, as_user_error, check_address_space
from flows.messages import close_broken_output, console, is_json, replace_unencodable, write_line
from tasks.cluster.signals import ignore_interrupt
from tasks.servers.prefect import set_variables
from tasks.storage.settings import quiet_ecosystem, scrubbed

if TYPE_CHECKING:
    from configs.run import RunConfig

# fkd, Prefect, MLflow and Dask are imported inside the commands: `fkd --help` is instant, and an
# import that fails for lack of memory is reported.

_STOPPED = "Stopped. Computed results are kept; the same command continues."
_LAST_WORDS = f"fkd: {NO_MEMORY}\n".encode()


def _version() -> str:
    """Return the output of `fkd --version`."""
    from fkd import __version__

    return f"fkd {__version__}"


app = App(
    name="fkd",
    version=_version,
    # No --no-dry-run beside --dry-run, and no default that only says "off" or "none".
    default_parameter=Parameter(negative=(), show_default=lambda value: value or None),
    suppress_keyboard_interrupt=False,  # `main` prints that results are kept
    help="Fair regression with continuous protected attributes, as a pipeline. "
    "--debug shows the traceback of an error. Commands that run accept --log-format json and "
    "--log-level debug|info|warning|error.",
)


@app.command
def run(config: str = "default", /, *, overrides: Overrides = (), dry_run: bool = False) -> None:
    """Compute the trials of a configuration, choose a champion and write the report.

    Parameters
    ----------
    config
        A YAML file, or the name of a shipped one.
    dry_run
        Print the plan with its cost, compute nothing.
    """
    from configs.load import load_config

    # Before the slow imports: a mistyped key is reported at once.
    _run([load_config(config, overrides)], dry_run)


@app.command
def sweep(
    config: str, /, *, over: Axes = (), overrides: Overrides = (), dry_run: bool = False
) -> None:
    """Run every combination of the values under `sweep` in a configuration, on one cluster.

    A failing run does not stop the others. The exit code is 3 then.

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
    from flows.run import run_configs, show_plan

    if dry_run:
        show_plan(configs)
        return
    run_configs(configs)


@app.command
def report(
    config: str | None = None,
    /,
    *,
    check: bool = False,
    from_store: bool = False,
    overrides: Overrides = (),
) -> None:
    """Write the report of a finished run again, or copy one from the shared store.

    Parameters
    ----------
    config
        A YAML file, or the name of a shipped one; default if not given.
    check
        Print the checks of the run. The exit code is 3 if one finds an issue.
    from_store
        Copy the report of a finished run from FKD_STORE to FKD_HOME. CONFIG is then the name of
        the run, NAME~1 for the run before it, or the first digits of its identity. Without CONFIG,
        list the runs of the store.
    """
    if from_store:
        if overrides or check:
            raise UserError("--set and --check must not be given with --from-store.")
        from flows.store_commands import report_from_store

        report_from_store(config)
        return
    from configs.load import load_config

    source = config or "default"
    found = load_config(source, overrides)
    from flows.run import rewrite_report

    study = rewrite_report(found, source, overrides)
    if check:
        from flows.store_commands import show_checks

        show_checks(study)


# Each with its description, so that `fkd --help` imports none of them.
for _target, _name, _help in (
    (
        "run:reproduce_paper",
        "reproduce",
        "Run the paper's experiments, judge its claims and write one page with all of them.",
    ),
    ("run:serve_schedule", "schedule", "Run a configuration on a schedule until Ctrl-C."),
    ("run:watch_model", "watch", "Check a champion on new rows."),
    (
        "model_commands:audit_file",
        "audit",
        "Audit the predictions of any model along sensitive columns.",
    ),
    (
        "model_commands:promote_model",
        "promote",
        "Make a registered version the champion, and record who decided it.",
    ),
    ("model_commands:score_rows", "score", "Predict the rows of a table with a registered model."),
    (
        "data_commands:propose_own",
        "init",
        "Write a commented configuration for a table of your own.",
    ),
    ("data_commands:app", "data", "Fetch, list, verify or remove data."),
    (
        "store_commands:compare_runs",
        "compare",
        "Show the differences between two runs: settings, rows, code, numbers.",
    ),
    ("store_commands:clean_store", "clean", "Remove old or unused results from the store."),
    (
        "store_commands:sync_all",
        "sync",
        "Record in MLflow the runs that it missed while it was unreachable.",
    ),
    (
        "status:show_status",
        "status",
        "Show running and past runs with failures and rates, and the configured servers.",
    ),
    (
        "status:open_pages",
        "ui",
        "Start the Prefect and MLflow pages, or show the addresses of yours, until Ctrl-C.",
    ),
):
    app.command(f"flows.{_target}", name=_name, help=_help)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command. Errors that a user can correct are one message with exit code 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    # SIGTERM ends a command like Ctrl-C, so that clusters, servers and files are cleaned up.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    replace_unencodable()
    quiet_ecosystem()
    words, chosen = split_log_options(words)
    with set_variables(log_variables(words, chosen)):
        sys.exit(_call(words, chosen, debug))


def _call(words: list[str], chosen: dict[str, str], debug: bool) -> int:
    """Run one command and return its exit code."""
    try:
        check_log_options(words, chosen)
        check_address_space()
        app(words, exit_on_error=False, print_error=False, result_action="return_none")
        sys.stdout.flush()
    except CycloptsError as error:
        message = " ".join(str(error).split())
        return _show(UserError(f"{message} Try `fkd --help`."), debug)
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
            # No memory is left, not even to end this process in the usual way.
            os.write(2, _LAST_WORDS)
            os._exit(UserError.exit_code)
    return 0


def _show(error: Exception, debug: bool) -> int:
    """Print an error as one message, or with its traceback, and return its exit code."""
    shown = as_user_error(error)
    if is_json():
        trace = "".join(traceback.format_exception(error)) if debug else None
        write_line("error", "error", str(shown), exit_code=shown.exit_code, traceback=trace)
    elif debug:
        sys.stderr.write(scrubbed("".join(traceback.format_exception(error))))
    else:
        message = escape(scrubbed(str(shown)))
        console.print(f"[bold red]fkd:[/bold red] {message}", soft_wrap=True)
    return shown.exit_code


if __name__ == "__main__":
    main()
