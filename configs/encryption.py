"""The certificates of a cluster, as a configuration names them."""

from configs.model import Frozen


class TlsConfig(Frozen):
    """Files in PEM form, beside the YAML that names them; Dask's own settings win."""

    ca: str  # the authority by whom all certificates of the cluster are signed
    cert: str  # ours, which may hold the key too
    key: str | None = None
