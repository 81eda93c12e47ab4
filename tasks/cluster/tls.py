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
_HOW = "name others by cluster.tls, or by Dask's own distributed.comm.tls"
# The parameters of `distributed.Security` with the settings of Dask that mean the same.
_SETTINGS = {
    "tls_ca_file": "ca-file",
    **{f"tls_{role}_{part}": f"{role}.{part}" for role in ROLES for part in ("cert", "key")},
}


def _for_all_roles(tls: TlsConfig) -> dict[str, str]:
    """Return one certificate as that of client, scheduler and workers."""
    parts = {"cert": tls.cert, "key": tls.key}
    named = {f"tls_{role}_{part}": text for role in ROLES for part, text in parts.items() if text}
    return {"tls_ca_file": tls.ca, **named}


def named_certificates(
    tls: TlsConfig | None, told: dict[str, Any], roles: Sequence[str] = ROLES
) -> dict[str, str] | None:
    """Return the certificates that the user has named for these roles, if any, once they are good.

    Parameters
    ----------
    tls : those of the configuration.
    told : what the user has told Dask by files or variables, which wins where it is complete.
    """
    theirs = {
        name: str(value)
        for name, path in _SETTINGS.items()
        if (value := dask.config.get(f"distributed.comm.tls.{path}", None, config=told))
    }
    if {"tls_ca_file", *(f"tls_{role}_cert" for role in roles)} <= theirs.keys():
        found = theirs
    elif tls is not None:
        found = _for_all_roles(tls)
    else:
        return None
    _check_authority(found["tls_ca_file"])
    for role in roles:
        _check_pair(found[f"tls_{role}_cert"], found.get(f"tls_{role}_key"))
    return found


def plain_allowed(told: dict[str, Any]) -> bool:
    """Return whether the user has told Dask that it may talk unencrypted."""
    return dask.config.get("distributed.comm.require-encryption", None, config=told) is False


def _check_authority(ca: str) -> None:
    """Refuse an authority that nobody can be checked against."""
    for certificate in _certificates(ca):
        _check_date(ca, certificate)


def _check_pair(cert: str, key: str | None) -> None:
    """Refuse a certificate out of date, or without the key that belongs to it."""
    _check_date(cert, _certificates(cert)[0])
    if _is_text(cert) or (key is not None and _is_text(key)):
        return
    holder = key or cert
    _read(holder)
    try:
        # Some password, or OpenSSL would ask for one at the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(cert, key, password="none")
    except (OSError, ValueError) as error:
        raise UserError(
            f"The file {holder} must hold the key of the certificate {cert}, in PEM form without "
            f"a password, but OpenSSL says: {_short(error)}; {_HOW}."
        ) from error


def _certificates(source: str) -> list[x509.Certificate]:
    """Return the certificates of a file, or of the text itself."""
    try:
        return x509.load_pem_x509_certificates(_read(source))
    except ValueError as error:
        raise UserError(
            f"The file {source} must hold a certificate in PEM form, but it does not; {_HOW}."
        ) from error


def _check_date(source: str, certificate: x509.Certificate) -> None:
    """Refuse a certificate whose time has not come, or is over."""
    now = datetime.datetime.now(datetime.UTC)
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if not begin <= now <= end:
        place = "given as text" if _is_text(source) else source
        raise UserError(
            f"The certificate {place} is valid from {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} "
            f"UTC, but it is {now:%Y-%m-%d %H:%M} now; renew it, or {_HOW}."
        )


def _read(source: str) -> bytes:
    """Return what a file holds, or the text itself, which Dask takes too."""
    if _is_text(source):
        return source.encode()
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise UserError(
            f"The certificate file {source} cannot be read ({error.strerror}); correct its path "
            f"or its rights, or {_HOW}."
        ) from error


def _is_text(source: str) -> bool:
    """Return whether a certificate is given itself, not its file."""
    return "\n" in source


def _short(error: BaseException) -> str:
    """Return an error of OpenSSL in a few words."""
    reason = getattr(error, "reason", None)
    return str(reason).replace("_", " ").lower() if reason else str(error)


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
