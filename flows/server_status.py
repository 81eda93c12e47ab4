"""Show the servers that the environment names, each with its state."""

from collections.abc import Callable, Iterator

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from configs.errors import UserError
from tasks.adapters.addresses import without_credentials
from tasks.adapters.reachable import TrackingRefusedError
from tasks.adapters.servers.prefect_server import PrefectRefusedError, prefect_server
from tasks.adapters.settings import Settings

_SERVES, _SILENT, _REFUSES = "[green]serves[/]", "[red]silent[/]", "[red]refuses us[/]"


def show_servers(settings: Settings, console: Console) -> None:
    """Print every named server with its address. Raise UserError if one refuses the credentials."""
    table = Table(
        title="Servers", title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1)
    )
    for heading in ("server", "state", "address"):
        table.add_column(heading, overflow="fold")
    refused: list[UserError] = []
    for name, url, ask in _named(settings):
        state = _SERVES
        try:
            ask()
        except (TrackingRefusedError, PrefectRefusedError) as error:
            refused.append(error)
            state = _REFUSES
        except UserError:
            state = _SILENT
        table.add_row(name, state, escape(without_credentials(url)))
    if table.row_count:
        console.print(table)
    if refused:
        raise UserError(" ".join(map(str, refused)))


def _named(settings: Settings) -> Iterator[tuple[str, str, Callable[[], None]]]:
    """Yield the servers that the environment names, each with a question that it must answer."""
    if settings.prefect_api_url is not None:
        yield "Prefect", settings.prefect_api_url, lambda: _ask_prefect(settings)
    if (settings.mlflow_tracking_uri or "").startswith(("http://", "https://")):
        yield "MLflow", str(settings.mlflow_tracking_uri), lambda: _ask_mlflow(settings)


def _ask_prefect(settings: Settings) -> None:
    """Connect once."""
    with prefect_server(settings):
        pass


def _ask_mlflow(settings: Settings) -> None:
    """Ask for one experiment."""
    # Imported late: MLflow takes seconds to load.
    from tasks.adapters.registry import told
    from tasks.adapters.timed_client import TimedClient
    from tasks.adapters.tracking import prepare_stores

    prepare_stores(settings)
    told(settings, lambda: TimedClient(settings).search_experiments(max_results=1))
