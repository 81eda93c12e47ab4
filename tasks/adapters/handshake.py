"""Whether a scheduler takes our connection, encrypted or not; if it does not, why."""

import socket
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

from configs.errors import UserError

_CERTIFICATE_EXPIRED = 10  # OpenSSL's number
_CURE = (
    "name the files by cluster.tls: {ca: ..., cert: ..., key: ...}, or by Dask's own "
    "DASK_DISTRIBUTED__COMM__TLS__..."
)


def agreed_address(address: str, certificates: Mapping[str, str] | None, *, plain: bool) -> str:
    """Return an address whose scheme says what the certificates say, or refuse it.

    Parameters
    ----------
    plain : whether unencrypted connections are allowed though there are certificates.
    """
    if "://" not in address:
        return f"{'tls' if certificates else 'tcp'}://{address}"
    if address.startswith("tls://") and certificates is None:
        raise UserError(f"The address {address} of a Dask scheduler needs certificates; {_CURE}.")
    if address.startswith("tcp://") and certificates and not plain:
        raise UserError(
            "The address of a Dask scheduler must begin by tls:// where certificates are named, "
            f"got {address}; write {address.replace('tcp', 'tls', 1)}, or leave them out."
        )
    return address


def refusal(address: str, certificates: Mapping[str, str] | None, seconds: float) -> str | None:
    """Return one sentence on why a scheduler does not let us in, None where that cannot be told.

    Parameters
    ----------
    certificates : those of a client, as `distributed.Security` takes them; None without TLS.
    seconds : how long to wait for each answer.
    """
    try:
        parts = urlsplit(address)
        place = (parts.hostname or "", parts.port or 0)
        with socket.create_connection(place, timeout=seconds) as plain:
            if certificates is None:
                return _wants_tls(plain, address)
            return _rejected(plain, address, certificates)
    except (OSError, ValueError):
        return None


def _wants_tls(plain: socket.socket, address: str) -> str | None:
    """Return that a server speaks TLS, if it does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_socket(plain).close()
    except ssl.SSLError as error:
        if "ALERT" not in (error.reason or ""):
            return None
    place = address.partition("://")[2] or address
    return (
        f"The Dask scheduler at {address} takes encrypted connections only; write the address as "
        f"tls://{place} and {_CURE}."
    )


def _rejected(plain: socket.socket, address: str, certificates: Mapping[str, str]) -> str | None:
    """Return which side of the handshake is not content, if one is."""
    ca, cert = certificates["tls_ca_file"], certificates["tls_client_cert"]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(**({"cadata": ca} if "\n" in ca else {"cafile": ca}))
    if "\n" not in cert:
        context.load_cert_chain(cert, certificates.get("tls_client_key"))
    try:
        with context.wrap_socket(plain) as secure:
            secure.recv(1)  # what it thinks of our certificate comes after the handshake
    except ssl.SSLCertVerificationError as error:
        if error.verify_code == _CERTIFICATE_EXPIRED:
            return (
                f"The certificate of the Dask scheduler at {address} has expired; renew it there, "
                "then start the scheduler again."
            )
        return (
            f"The certificate of the Dask scheduler at {address} is not signed by the authority "
            f"{ca} ({error.verify_message}); name the one that signed it by cluster.tls.ca, or by "
            "Dask's own DASK_DISTRIBUTED__COMM__TLS__CA_FILE."
        )
    except ssl.SSLError as error:
        if "ALERT" in (error.reason or ""):
            return (
                f"The Dask scheduler at {address} does not accept our certificate {cert} "
                f"({(error.reason or '').replace('_', ' ').lower()}); use one that its authority "
                f"signed: {_CURE}."
            )
        return (
            f"The server at {address} does not speak TLS, though cluster.address asks for it; "
            "start the scheduler with certificates (`dask scheduler --tls-ca-file CA --tls-cert "
            "CERT --tls-key KEY`), or correct the address."
        )
    return None
