"""Every file of deploy/, validated without a cluster: schemas, linters, what they must agree on."""

import json
import re
import stat
import subprocess
import sys
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml
from compose_processes import Compose, check_keys
from manifests import DEPLOY, KUBERNETES, documents, pods, rendered
from object_stores import wait_listening

from configs.errors import UserError
from tasks.storage.backends import ObjectStoreBackend

OVERLAYS = ("base", "overlays/small", "overlays/large")
VERSION = "1.31"  # of Kubernetes, the oldest one that is meant
SECRET = re.compile(r"(?i)(password|secret_access_key|auth_string|token)\s*[:=]\s*['\"]?[\w/+]{8,}")
BIN = Path(sys.executable).parent


def _crd(kind):
    """The schema of a resource of the Dask operator, from its own wheel."""
    import dask_kubernetes

    chart = "operator/deployment/helm/dask-kubernetes-operator/crds"
    folder = Path(dask_kubernetes.__file__).parent / chart
    (found,) = documents(folder / f"{kind.lower()}.yaml")
    (version,) = [v for v in found["spec"]["versions"] if v["name"] == "v1"]
    return _strict(version["schema"]["openAPIV3Schema"])


def _strict(schema):
    """The same schema, which refuses what it does not name, as the API server prunes it."""
    if not isinstance(schema, dict):
        return schema
    schema = {key: _each(key, value) for key, value in schema.items()}
    known = schema.get("properties")
    open_ended = schema.get("x-kubernetes-preserve-unknown-fields")
    if isinstance(known, dict) and not open_ended and "additionalProperties" not in schema:
        # What every object has, which definitions leave out.
        schema["properties"] = {"apiVersion": {}, "kind": {}, "metadata": {}, **known}
        schema["additionalProperties"] = False
    if schema.pop("x-kubernetes-int-or-string", False):
        schema.pop("type", None)
    return schema


def _each(key, value):
    if key == "properties":
        return {name: _strict(one) for name, one in value.items()}
    return _strict(value) if key in ("items", "additionalProperties") else value


def _validate(resource):
    if resource["apiVersion"] == "kubernetes.dask.org/v1":
        jsonschema.validate(resource, _crd(resource["kind"]))
    else:
        kubernetes_validate.validate(resource, VERSION, strict=True)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_manifest_fits_its_schema(overlay):
    resources = rendered(KUBERNETES / overlay)
    assert {"DaskCluster", "DaskAutoscaler", "NetworkPolicy", "Job"} <= {
        r["kind"] for r in resources
    }
    for resource in resources:
        _validate(resource)


def test_the_schemas_bite():
    (cluster, scaler) = documents(KUBERNETES / "base" / "dask.yaml")
    cluster["spec"]["worker"]["replica"] = 1
    with pytest.raises(jsonschema.ValidationError, match="replica"):
        _validate(cluster)
    scaler["spec"]["maximum"] = "four"
    with pytest.raises(jsonschema.ValidationError):
        _validate(scaler)
    (job,) = documents(KUBERNETES / "base" / "sweep.yaml")
    job["spec"]["template"]["spec"]["container"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        _validate(job)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_run_as_nobody_on_a_read_only_root_with_limits(overlay):
    for resource in rendered(KUBERNETES / overlay):
        for pod in pods(resource):
            name = resource["metadata"]["name"]
            assert pod["securityContext"]["runAsNonRoot"] is True, name
            for container in pod["containers"]:
                closed = container["securityContext"]
                assert closed["readOnlyRootFilesystem"] is True, name
                assert closed["allowPrivilegeEscalation"] is False, name
                assert closed["capabilities"] == {"drop": ["ALL"]}, name
                assert container["resources"]["limits"]["memory"], name
                places = {mount["mountPath"] for mount in container["volumeMounts"]}
                assert "/tmp" in places, name
                assert not container["image"].endswith(":latest"), name
                assert ":" in container["image"], name


def test_overlays_differ_in_size_alone():
    small, large = (rendered(KUBERNETES / "overlays" / name) for name in ("small", "large"))
    sizes = [
        next(r["spec"]["maximum"] for r in found if r["kind"] == "DaskAutoscaler")
        for found in (small, large)
    ]
    assert sizes == [1, 64]
    names = [{(r["kind"], r["metadata"]["name"]) for r in found} for found in (small, large)]
    assert names[1] - names[0] == {("ResourceQuota", "fkd")}
    assert names[0] <= names[1]


def test_no_manifest_holds_a_secret_and_each_named_one_is_told():
    told = (DEPLOY / "README.md").read_text()
    for path in sorted(DEPLOY.rglob("*")):
        if path.is_file() and "secrets" not in path.parts:
            assert not SECRET.search(path.read_text()), path.name
    for resource in rendered(KUBERNETES / "base"):
        assert resource["kind"] != "Secret"
        for name in re.findall(
            r"'(?:secretName|secretRef)': (?:'|{'name': ')([\w-]+)", str(resource)
        ):
            assert f"`{name}`" in told, f"deploy/README.md does not tell how {name} is made"


def test_the_compose_file_fits_its_schema_and_names_its_secrets():
    path = DEPLOY / "compose" / "compose.yaml"
    subprocess.run(
        [BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", path],
        check=True,
        capture_output=True,
    )
    told = yaml.safe_load(path.read_text())
    named = {name for service in told["services"].values() for name in service.get("secrets", [])}
    assert named == set(told["secrets"])
    for name, service in told["services"].items():
        given = service.get("environment", {})
        for key, value in given.items():
            if "/run/secrets/" in str(value):
                assert value.rpartition("/")[2] in service["secrets"], (name, key)
        for other, wanted in _conditions(service):
            assert wanted != "service_healthy" or "healthcheck" in told["services"][other], name
        if name != "database":  # PostgreSQL's own image writes to its root
            assert service["read_only"] is True, name
        if (ports := service.get("ports")) is not None:
            assert all(port.startswith("127.0.0.1:") for port in ports), name


def _conditions(service):
    """Which services one waits for, and until when."""
    waited = service.get("depends_on", {})
    if isinstance(waited, list):
        return []
    return [(other, how["condition"]) for other, how in waited.items()]


def test_the_secrets_of_compose_are_closed_to_others_but_not_to_the_containers_user(tmp_path):
    folder = tmp_path / "secrets"
    script = DEPLOY / "compose" / "make-secrets"
    subprocess.run(["bash", script, folder], check=True, capture_output=True)
    told = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    made = {path.name: path for path in folder.iterdir()}
    assert set(made) == set(told["secrets"])
    # Each file is mounted by itself: who may enter the folder is no question inside.
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in made.values():
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
    words = [path.read_text() for path in made.values()]
    assert len(set(words)) == len(words)
    check = ["openssl", "verify", "-CAfile", made["tls_ca"], made["tls_cert"]]
    subprocess.run(check, check=True, capture_output=True)
    again = subprocess.run(["bash", script, folder], capture_output=True, text=True)
    assert again.returncode == 2
    assert "left as it is" in again.stderr
    assert [path.read_text() for path in made.values()] == words


def _shipped_template(kind):
    """The template of a kind of pool that Prefect's own wheel brings."""
    import prefect

    views = Path(prefect.__file__).parent / "server" / "api" / "collections_data" / "views"
    packages = json.loads((views / "aggregate-worker-metadata.json").read_text())
    (found,) = [package[kind] for package in packages.values() if kind in package]
    return found["default_base_job_configuration"]


@pytest.mark.parametrize("kind", ["process", "docker", "kubernetes"])
def test_work_pools_are_templates_that_prefect_fills(kind):
    from prefect.utilities.templating import apply_values, find_placeholders

    template = json.loads((DEPLOY / "pools" / f"{kind}.json").read_text())
    variables = template["variables"]["properties"]
    jsonschema.Draft7Validator.check_schema(template["variables"])
    for told in variables.values():
        if "default" in told:
            jsonschema.validate(told["default"], told)
    used = {found.name for found in find_placeholders(template["job_configuration"])}
    assert used == set(variables)
    theirs = _shipped_template(kind)
    assert set(template["job_configuration"]) <= set(theirs["job_configuration"])
    values = {name: told["default"] for name, told in variables.items() if "default" in told}
    values |= {"name": "run", "labels": {"a": "b"}, "command": "prefect flow-run execute"}
    filled = apply_values(template["job_configuration"], values)
    if kind == "kubernetes":
        manifest = filled["job_manifest"]
        (container,) = manifest["spec"]["template"]["spec"]["containers"]
        # As Prefect's worker does before it sends a job.
        container["env"] = [{"name": k, "value": v} for k, v in container["env"].items()]
        container["args"] = container["args"].split()
        kubernetes_validate.validate(manifest, VERSION, strict=True)


def test_the_store_of_compose_asks_for_its_secret(tmp_path, monkeypatch):
    stack = Compose(tmp_path / "compose")
    try:
        stack.start("store")
        wait_listening(stack.services["store"].port, stack.processes["store-1"])
        for name, value in stack.variables("worker").items():
            if name.startswith("AWS_"):
                monkeypatch.setenv(name, value)
        monkeypatch.delenv("AWS_PROFILE", raising=False)
        place = ObjectStoreBackend("s3://fkd/state")
        place.put("ab/one", b"content")
        assert place.get("ab/one") == b"content"
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
        with pytest.raises(UserError, match="refuses"):
            ObjectStoreBackend("s3://fkd/state").put("ab/two", b"content")
    finally:
        assert stack.down() == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"devices": ["/dev/sda"]}, "devices"),
        ({"healthcheck": {"test": [], "start_interval": "1s"}}, "start_interval"),
    ],
)
def test_a_key_of_compose_that_no_process_has_is_an_error(change, named):
    file = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    check_keys(file)
    file["services"]["store"] |= change
    with pytest.raises(AssertionError, match=named):
        check_keys(file)
