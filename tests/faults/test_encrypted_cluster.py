"""Encrypted clusters: who is let in, what is said to who is not."""

import datetime
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from dask_process import dask_process, dask_scheduler, in_threads
from distributed import Security
from job_sample import touch

from configs.cluster import ClusterConfig
from configs.errors import UserError
from tasks.cluster.cluster import connect
from tasks.cluster.retries import run_jobs
from tasks.servers.shared_server import free_port

pytestmark = pytest.mark.stack


def new_pair():
    """A certificate that signs itself, with its key, as PEM."""
    made = Security.temporary()
    return made.tls_ca_file, made.tls_client_key


def _write(folder, name, certificate, key):
    cert, secret = folder / f"{name}.crt", folder / f"{name}.key"
    cert.write_text(certificate)
    secret.write_text(key)
    return {"ca": str(cert), "cert": str(cert), "key": str(secret)}


def _authority(key):
    """A certificate of a key, by itself, that may sign others."""
    return _signed(key, "authority", x509.BasicConstraints(ca=True, path_length=None), 2)


def _expired(key):
    """A certificate of the same key, by that authority, that ended a day ago."""
    return _signed(key, "old", x509.BasicConstraints(ca=False, path_length=None), -1)


def _signed(key, name, constraints, days):
    secret = serialization.load_pem_private_key(key.encode(), None)
    issuer, subject = (
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])
        for text in ("authority", name)
    )
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    made = (
        x509.CertificateBuilder(issuer, subject, secret.public_key(), x509.random_serial_number())
        .not_valid_before(now - 2 * day)
        .not_valid_after(now + days * day)
        .add_extension(constraints, critical=True)
        .sign(secret, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM).decode()


def _flags(tls):
    return ("--tls-ca-file", tls["ca"], "--tls-cert", tls["cert"], "--tls-key", tls["key"])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, good = tmp_path_factory.mktemp("tls"), new_pair()
    return {
        "good": _write(folder, "good", *good),
        "other": _write(folder, "other", *new_pair()),
        "old": _write(folder, "old", _expired(good[1]), good[1]),
        "authority": _write(folder, "authority", _authority(good[1]), good[1]),
    }


def _server(tls):
    return dask_scheduler(free_port(), *_flags(tls), scheme="tls")


@pytest.fixture(scope="module")
def encrypted(files):
    """The address of a scheduler that wants certificates."""
    with _server(files["good"]) as (_, address):
        yield address


def _refused(config, settings, match):
    with pytest.raises(UserError, match=match) as told, connect(config, settings):
        pass
    assert str(told.value).count("\n") == 0


def test_a_local_cluster_takes_no_plain_connection(settings, tmp_path):
    with connect(ClusterConfig(workers=1), settings) as client:
        address = client.scheduler.address
        assert address.startswith("tls://127.0.0.1:")
        assert all(worker.startswith("tls://") for worker in client.scheduler_info()["workers"])
        plain = ClusterConfig(address=address.replace("tls", "tcp"))
        _refused(plain, settings, r"accepts encrypted connections only.*tls://.*cluster\.tls")
        _refused(
            ClusterConfig(address=address, tls=_write(tmp_path, "mine", *new_pair())),
            settings,
            rf"certificate of the Dask scheduler at {address} is not signed by .*mine\.crt",
        )


def test_dasks_own_word_leaves_encryption_out(settings, monkeypatch):
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION", "False")
    with connect(ClusterConfig(workers=1), settings) as client:
        assert client.scheduler.address.startswith("tcp://")


def test_an_encrypted_scheduler_computes_for_who_has_its_certificates(
    encrypted, files, settings, tmp_path, monkeypatch
):
    jobs = [(str(tmp_path), str(i), "die once" if i == 1 else "fine") for i in range(4)]
    with dask_process("worker", encrypted, *_flags(files["good"])):
        with connect(ClusterConfig(address=encrypted, tls=files["good"]), settings) as client:
            assert run_jobs(client, touch, jobs[:2], retries=2, time_limit=600.0) == []
        # Dask's own variables win; the same address without a scheme is read as theirs.
        for part in ("ca_file", "client__cert", "client__key"):
            name = {"ca_file": "ca", "client__cert": "cert", "client__key": "key"}[part]
            variable = f"DASK_DISTRIBUTED__COMM__TLS__{part.upper()}"
            monkeypatch.setenv(variable, files["good"][name])
        bare = ClusterConfig(address=encrypted.removeprefix("tls://"), tls=files["other"])
        with connect(bare, settings) as client:
            assert run_jobs(client, touch, jobs[2:], retries=2, time_limit=600.0) == []


@pytest.mark.parametrize(
    ("ours", "match"),
    [
        ({"ca": "good", "cert": "other", "key": "other"}, "does not accept our certificate"),
        ({"ca": "other", "cert": "good", "key": "good"}, r"not signed by the authority .*other"),
        ({"ca": "good", "cert": "old", "key": "old"}, r"old\.crt is valid from .* Renew it"),
        ({"ca": "old", "cert": "good", "key": "good"}, r"old\.crt is valid from .* Renew it"),
        ({"ca": "good", "cert": "good", "key": "other"}, "key of the certificate .* mismatch"),
    ],
    ids=["stranger", "wrong authority", "expired", "expired authority", "another's key"],
)
def test_certificates_that_do_not_fit_are_named(ours, match, encrypted, files, settings):
    tls = {part: files[name][part] for part, name in ours.items()}
    _refused(ClusterConfig(address=encrypted, tls=tls), settings, match)


def test_no_security_in_the_arguments_leaves_a_local_cluster_encrypted(settings):
    config = ClusterConfig(workers=1, cluster_kwargs={"security": None})
    with connect(config, settings) as client:
        assert client.scheduler.address.startswith("tls:")


def test_certificates_that_cannot_be_read_are_named(encrypted, files, settings, tmp_path):
    good, text = files["good"], tmp_path / "text.crt"
    text.write_text("no certificate")
    for part, path, match in [
        ("key", str(tmp_path / "gone.key"), r"gone\.key cannot be read \(No such file.*its path"),
        ("ca", str(tmp_path), r"cannot be read \(Is a directory\)"),
        ("cert", str(text), r"text\.crt must contain a certificate in PEM format"),
    ]:
        _refused(ClusterConfig(address=encrypted, tls={**good, part: path}), settings, match)


def test_a_key_behind_a_password_is_refused_not_asked_for(encrypted, files, settings, tmp_path):
    locked = tmp_path / "locked.key"
    secret = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"word"),
    )
    locked.write_bytes(secret)
    tls = {**files["good"], "key": str(locked)}
    _refused(ClusterConfig(address=encrypted, tls=tls), settings, r"locked\.key .*password")


def test_plain_and_encrypted_addresses_are_not_mistaken(encrypted, files, settings):
    place = encrypted.removeprefix("tls://")
    for config, match in [
        (ClusterConfig(address=f"tcp://{place}"), "accepts encrypted connections only"),
        (ClusterConfig(address=encrypted), "needs certificates.*cluster.tls"),
        (
            ClusterConfig(address=f"tcp://{place}", tls=files["good"]),
            rf"must begin with tls://.*Write tls://{place}",
        ),
    ]:
        _refused(config, settings, match)


def test_a_plain_scheduler_where_certificates_are_named_is_refused(files, settings):
    with dask_scheduler(free_port()) as (_, address):
        config = ClusterConfig(address=address.replace("tcp", "tls"), tls=files["good"])
        _refused(config, settings, r"does not speak TLS.*--tls-ca-file")


def test_an_expired_scheduler_is_named(files, settings):
    trusted = files["authority"]["ca"]
    with _server({**files["old"], "ca": trusted}) as (_, address):
        config = ClusterConfig(address=address, tls={**files["good"], "ca": trusted})
        _refused(config, settings, rf"scheduler at {address} has expired. Renew it there")


def test_the_address_that_dask_was_told_takes_the_place_of_a_local_cluster(
    encrypted, files, settings
):
    told = replace(settings, dask_scheduler_address=encrypted)
    with connect(ClusterConfig(tls=files["good"]), told) as client:
        assert client.scheduler.address == encrypted
    with connect(in_threads(workers=1), told) as client:
        assert client.scheduler.address.startswith("inproc://")
