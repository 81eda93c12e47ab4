"""Certificates by which the processes of a cluster know each other: made here, or named files."""

import datetime
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dask
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from configs.encryption import TlsConfig
from configs.errors import UserError

ROLES = ("client", "scheduler", "worker")
_DAYS = 365
_HOW = "name others by cluster.tls, or by Dask's own distributed.comm.tls"
# The parameters of `distributed.Security` with the settings of Dask that mean the same.
_SETTINGS = {
    "tls_ca_file": "ca-file",
    **{f"tls_{role}_{part}": f"{role}.{part}" for role in ROLES for part in ("cert", "key")},
}


def new_pair() -> tuple[str, str]:
    """Return a certificate that signs itself with its key, both as PEM.

    On an elliptic curve: the key takes a millisecond, one of RSA up to a fifth of a second.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "fkd")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        # Machines whose clocks differ a little must agree on it.
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), secret.decode()


def for_all_roles(ca: str, cert: str, key: str | None) -> dict[str, str]:
    """Return one certificate as that of client, scheduler, workers."""
    parts = {"cert": cert, "key": key}
    named = {f"tls_{role}_{part}": text for role in ROLES for part, text in parts.items() if text}
    return {"tls_ca_file": ca, **named}


def temporary() -> dict[str, str]:
    """Return certificates that are never written to a file of ours, for one cluster's life."""
    certificate, key = new_pair()
    return for_all_roles(certificate, certificate, key)


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
        found = for_all_roles(tls.ca, tls.cert, tls.key)
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
