"""TLS certificates of a cluster that the user names, and reasons for refused connections."""

import datetime
import socket
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dask
from cryptography import x509

from configs.cluster import TlsConfig
from configs.errors import UserError

ROLES = ("client", "scheduler", "worker")
_REMEDY = "Other files are named by cluster.tls, or by Dask's own distributed.comm.tls."
_NAME_IT = (
    "Name the files by cluster.tls: {ca: ..., cert: ..., key: ...}, or by Dask's own "
    "DASK_DISTRIBUTED__COMM__TLS__..."
)
_CERTIFICATE_EXPIRED = 10  # code of OpenSSL
# Parameters of `distributed.Security` and the settings of Dask with the same meaning.
_SETTINGS = {
    "tls_ca_file": "ca-file",
    **{f"tls_{role}_{part}": f"{role}.{part}" for role in ROLES for part in ("cert", "key")},
}


def named_certificates(
    tls: TlsConfig | None, user: dict[str, Any], roles: Sequence[str] = ROLES
) -> dict[str, str] | None:
    """Return the certificates that the user names for these roles after checks, or None.

    Parameters
    ----------
    tls
        Certificates of the configuration.
    user
        The user's settings of Dask, which win if they are complete.
    """
    theirs = {
        name: str(value)
        for name, path in _SETTINGS.items()
        if (value := dask.config.get(f"distributed.comm.tls.{path}", None, config=user))
    }
    if {"tls_ca_file", *(f"tls_{role}_cert" for role in roles)} <= theirs.keys():
        found = theirs
    elif tls is not None:
        parts = {"cert": tls.cert, "key": tls.key}
        named = {f"tls_{r}_{part}": text for r in ROLES for part, text in parts.items() if text}
        found = {"tls_ca_file": tls.ca, **named}
    else:
        return None
    _check_dates(found["tls_ca_file"])
    for role in roles:
        _check_pair(found[f"tls_{role}_cert"], found.get(f"tls_{role}_key"))
    return found


def plain_allowed(user: dict[str, Any]) -> bool:
    """Return True if the user's settings of Dask allow unencrypted connections."""
    return dask.config.get("distributed.comm.require-encryption", None, config=user) is False


def _check_pair(cert: str, key: str | None) -> None:
    """Raise a UserError for an expired certificate, or one without its key."""
    _check_dates(cert, count=1)
    if _is_text(cert) or (key is not None and _is_text(key)):
        return
    holder = key or cert
    _read(holder)
    try:
        # Without a password argument OpenSSL would ask for one at the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(cert, key, password="none")
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None)
        cause = str(reason).replace("_", " ").lower() if reason else str(error)
        raise UserError(
            f"The file {holder} must contain the key of the certificate {cert}, in PEM format and "
            f"without a password, but OpenSSL reports: {cause}. {_REMEDY}"
        ) from error


def _check_dates(source: str, count: int | None = None) -> None:
    """Raise a UserError for a certificate that is not yet or no longer valid.

    Only the first `count` certificates of the file are checked.
    """
    try:
        certificates = x509.load_pem_x509_certificates(_read(source))
    except ValueError as error:
        raise UserError(
            f"The file {source} must contain a certificate in PEM format. {_REMEDY}"
        ) from error
    now = datetime.datetime.now(datetime.UTC)
    for certificate in certificates[:count]:
        begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        if not begin <= now <= end:
            place = "given as text" if _is_text(source) else source
            raise UserError(
                f"The certificate {place} is valid from {begin:%Y-%m-%d %H:%M} to "
                f"{end:%Y-%m-%d %H:%M} UTC, and it is {now:%Y-%m-%d %H:%M} now. Renew it. {_REMEDY}"
            )


def _read(source: str) -> bytes:
    """Return the content of a file, or the text itself, which Dask accepts too."""
    if _is_text(source):
        return source.encode()
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise UserError(
            f"The certificate file {source} cannot be read ({error.strerror}). Correct its path or "
            f"its permissions. {_REMEDY}"
        ) from error


def _is_text(source: str) -> bool:
    """Return True if a certificate is given as text and not as a file."""
    return "\n" in source


def agreed_address(address: str, certificates: Mapping[str, str] | None, *, plain: bool) -> str:
    """Return an address whose scheme agrees with the certificates, or raise a UserError.

    Parameters
    ----------
    plain
        True if unencrypted connections are allowed beside certificates.
    """
    if "://" not in address:
        return f"{'tls' if certificates else 'tcp'}://{address}"
    if address.startswith("tls://") and certificates is None:
        raise UserError(f"The address {address} of a Dask scheduler needs certificates. {_NAME_IT}")
    if address.startswith("tcp://") and certificates and not plain:
        raise UserError(
            "The address of a Dask scheduler must begin with tls:// if certificates are given, got "
            f"{address}. Write {address.replace('tcp', 'tls', 1)}, or remove the certificates."
        )
    return address


def refusal(address: str, certificates: Mapping[str, str] | None, seconds: float) -> str | None:
    """Return a message with the reason why a scheduler refuses a connection, or None.

    Parameters
    ----------
    certificates
        Certificates of a client, as `distributed.Security` takes them; None without TLS.
    seconds
        Timeout of each answer.
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
    """Return a message if the server requires TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_socket(plain).close()
    except ssl.SSLError as error:
        if "ALERT" not in (error.reason or ""):
            return None
    place = address.partition("://")[2] or address
    return (
        f"The Dask scheduler at {address} accepts encrypted connections only. Write the address as "
        f"tls://{place}. {_NAME_IT}"
    )


def _rejected(plain: socket.socket, address: str, certificates: Mapping[str, str]) -> str | None:
    """Return a message if one side of the handshake rejects the other."""
    ca, cert = certificates["tls_ca_file"], certificates["tls_client_cert"]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(**({"cadata": ca} if "\n" in ca else {"cafile": ca}))
    if "\n" not in cert:
        context.load_cert_chain(cert, certificates.get("tls_client_key"))
    try:
        with context.wrap_socket(plain) as secure:
            secure.recv(1)  # a rejection of our certificate arrives after the handshake
    except ssl.SSLCertVerificationError as error:
        if error.verify_code == _CERTIFICATE_EXPIRED:
            return (
                f"The certificate of the Dask scheduler at {address} has expired. Renew it there, "
                "then start the scheduler again."
            )
        return (
            f"The certificate of the Dask scheduler at {address} is not signed by the authority "
            f"{ca} ({error.verify_message}). Name the authority by cluster.tls.ca, or by "
            "Dask's own DASK_DISTRIBUTED__COMM__TLS__CA_FILE."
        )
    except ssl.SSLError as error:
        if "ALERT" in (error.reason or ""):
            return (
                f"The Dask scheduler at {address} does not accept our certificate {cert} "
                f"({(error.reason or '').replace('_', ' ').lower()}). Use one that its authority "
                f"signed. {_NAME_IT}"
            )
        return (
            f"The server at {address} does not speak TLS, which the address requires. Start the "
            "scheduler with certificates (`dask scheduler --tls-ca-file CA --tls-cert CERT "
            "--tls-key KEY`), or correct the address."
        )
    return None
