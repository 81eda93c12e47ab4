"""The authorities that certificates of MLflow servers are checked against, private ones too."""

import os
import ssl
from pathlib import Path

from configs.errors import UserError

# In the order of MLflow, then of the library by which it asks, then of OpenSSL.
_BUNDLES = (
    "MLFLOW_TRACKING_SERVER_CERT_PATH",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "SSL_CERT_FILE",
)
_CLIENT = "MLFLOW_TRACKING_CLIENT_CERT_PATH"


def trust() -> ssl.SSLContext:
    """Return what a connection to MLflow trusts, by the same variables as MLflow's own client."""
    if os.environ.get("MLFLOW_TRACKING_INSECURE_TLS", "").lower() in ("true", "1"):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        context = _context(*_bundle())
    if certificate := os.environ.get(_CLIENT):
        try:
            context.load_cert_chain(certificate)
        except (OSError, ssl.SSLError) as error:
            raise UserError(
                f"{_CLIENT} must name a readable certificate with its key, but {certificate} is "
                f"not ({error}); correct it or unset it."
            ) from error
    return context


def share_trust() -> None:
    """Let MLflow's client know OpenSSL's own variable too, which the library behind it ignores."""
    name, path = _bundle()
    if name == "SSL_CERT_FILE" and path is not None:
        os.environ["REQUESTS_CA_BUNDLE"] = path


def _bundle() -> tuple[str, str | None]:
    """Return which variable names the trusted authorities, with its value."""
    return next(((name, os.environ[name]) for name in _BUNDLES if os.environ.get(name)), ("", None))


def _context(name: str, path: str | None) -> ssl.SSLContext:
    """Return a context that trusts a file or a folder of authorities, the system's without one."""
    if path is None:
        import certifi  # as the library behind MLflow's client does

        return ssl.create_default_context(cafile=certifi.where())
    try:
        if Path(path).is_dir():
            return ssl.create_default_context(capath=path)
        return ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as error:
        raise UserError(
            f"{name} must name a file with certificates of authorities, but {path} is none "
            f"({error}); correct it or unset it."
        ) from error
