"""Dask workers in pods that the Dask operator starts on Kubernetes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import httpx

from configs.errors import UserError
from configs.run import ClusterConfig, KubernetesConfig

API_VERSION = "kubernetes.dask.org/v1"
HOME = "/fkd"  # where pods have FKD_HOME
_TLS_FOLDER = "/etc/fkd/tls"
_USER = 10001  # of the image in deploy/
_IDLE_SECONDS = 3600  # without a driver that could delete it, the operator does
_PORT = 8786
# By these the operator asks how many workers are wanted; Dask leaves them out by itself.
_ROUTES = (
    '["distributed.http.scheduler.api", "distributed.http.scheduler.info", '
    '"distributed.http.health", "distributed.http.scheduler.prometheus"]'
)


def cluster_resource(config: ClusterConfig, name: str) -> dict[str, Any]:
    """Return the DaskCluster of a configuration as the operator reads it."""
    make_cluster_spec = _operator_module().make_cluster_spec
    asked = pods_of(config)
    count = config.adapt.minimum if config.adapt else config.most_workers
    resources = {"cpu": str(config.blas_threads), "memory": asked.memory}
    resource: dict[str, Any] = make_cluster_spec(
        name=name,
        image=asked.image,
        n_workers=count,
        resources={"requests": resources, "limits": resources},
        env=_environment(asked, name),
        worker_command=["dask", "worker", "--nthreads", "1", "--memory-limit", "auto"],
        idle_timeout=_IDLE_SECONDS,
    )
    scheduler, worker = resource["spec"]["scheduler"], resource["spec"]["worker"]
    # The operator's own word for it, dask-scheduler, is no longer installed with Dask.
    protocol = ["--protocol", "tls"] if asked.tls_secret else []
    (container,) = scheduler["spec"]["containers"]
    container["args"] = ["dask", "scheduler", "--host", "0.0.0.0", *protocol]
    for part in (scheduler, worker):
        _harden(part["spec"], asked)
    return resource


def autoscaler_resource(config: ClusterConfig, name: str) -> dict[str, Any] | None:
    """Return the DaskAutoscaler of a configuration, None where the number is fixed."""
    if config.adapt is None:
        return None
    return {
        "apiVersion": API_VERSION,
        "kind": "DaskAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "cluster": name,
            "minimum": config.adapt.minimum,
            "maximum": config.adapt.maximum,
        },
    }


def scheduler_address(asked: KubernetesConfig, name: str) -> str:
    """Return where pods of the cluster, the driver's among them, reach the scheduler."""
    protocol = "tls" if asked.tls_secret else "tcp"
    return f"{protocol}://{name}-scheduler.{asked.namespace}.svc:{_PORT}"


def pods_of(config: ClusterConfig) -> KubernetesConfig:
    """Return what is asked of Kubernetes, which the kind guarantees."""
    assert config.kubernetes is not None
    return config.kubernetes


def _environment(asked: KubernetesConfig, name: str) -> list[dict[str, str]]:
    """Return the variables of the pods; a secret comes by its name alone, see `_harden`."""
    found = {
        "FKD_HOME": HOME,
        "DASK_SCHEDULER_ADDRESS": scheduler_address(asked, name),
        "DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES": _ROUTES,
        "DASK_DISTRIBUTED__WORKER__MEMORY__SPILL": "False",
        "DASK_TEMPORARY_DIRECTORY": "/tmp",
    }
    if asked.tls_secret:
        tls = "DASK_DISTRIBUTED__COMM__TLS"
        found |= {
            f"{tls}__CA_FILE": f"{_TLS_FOLDER}/ca.crt",
            "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True",
        }
        for role in ("SCHEDULER", "WORKER", "CLIENT"):
            found |= {
                f"{tls}__{role}__CERT": f"{_TLS_FOLDER}/tls.crt",
                f"{tls}__{role}__KEY": f"{_TLS_FOLDER}/tls.key",
            }
    return [{"name": key, "value": value} for key, value in found.items()]


def _harden(pod: dict[str, Any], asked: KubernetesConfig) -> None:
    """Let a pod run as nobody, with nothing to write to but what is mounted."""
    pod["automountServiceAccountToken"] = False
    pod["securityContext"] = {
        "runAsNonRoot": True,
        "runAsUser": _USER,
        "fsGroup": _USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if asked.service_account:
        pod["serviceAccountName"] = asked.service_account
    home: dict[str, Any] = {"emptyDir": {}}
    if asked.volume_claim:
        home = {"persistentVolumeClaim": {"claimName": asked.volume_claim}}
    volumes = {"tmp": ({"emptyDir": {}}, "/tmp"), "home": (home, HOME)}
    if asked.tls_secret:
        volumes["tls"] = ({"secret": {"secretName": asked.tls_secret}}, _TLS_FOLDER)
    pod["volumes"] = [{"name": name, **source} for name, (source, _) in volumes.items()]
    for container in pod["containers"]:
        container["securityContext"] = {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        container["volumeMounts"] = [
            {"name": name, "mountPath": place, **({"readOnly": True} if name == "tls" else {})}
            for name, (_, place) in volumes.items()
        ]
        if asked.secret:
            container["envFrom"] = [{"secretRef": {"name": asked.secret}}]


def _operator_module() -> Any:
    """Return the operator's client side, or say which extra brings it."""
    try:
        from dask_kubernetes import operator
    except ImportError as error:
        raise UserError(
            "cluster.kind kubernetes needs the package dask-kubernetes, which is not installed "
            "here; `pip install 'fkd[kubernetes]'` adds it."
        ) from error
    return operator


_READY_SECONDS = 120.0  # for the operator to begin; it answers within a second where it runs
_POLL_SECONDS = 1.0


@contextmanager
def kubernetes_cluster(config: ClusterConfig) -> Iterator[str]:
    """Yield the address of a cluster in pods; it is deleted afterwards."""
    asked, name = pods_of(config), f"fkd-{uuid4().hex[:10]}"
    wanted = [cluster_resource(config, name), autoscaler_resource(config, name)]
    created: list[Any] = []
    api = _api(asked.namespace)
    try:
        for resource in wanted:
            if resource is not None:
                created.append(_create(api, resource, asked.namespace))
        _await_operator(created[0], asked.namespace)
        yield scheduler_address(asked, name)
    finally:
        for resource in reversed(created):
            _delete(resource)


def _api(namespace: str) -> Any:
    """Return a connection to the cluster that kubeconfig, or the pod we run in, names."""
    import kr8s

    try:
        found = kr8s.api(namespace=namespace)
        found.version()
    except _faults() as error:
        raise UserError(
            f"cluster.kind kubernetes found no cluster to talk to ({_line(error)}); `kubectl get "
            "pods` must work here: set KUBECONFIG, or start the run inside the cluster with a "
            "service account (deploy/kubernetes)."
        ) from error
    return found


def _create(api: Any, resource: dict[str, Any], namespace: str) -> Any:
    """Return a resource of the operator that was created."""
    from kr8s.objects import new_class

    kind = new_class(resource["kind"], API_VERSION, namespaced=True, asyncio=False)
    found = kind(resource, namespace=namespace, api=api)
    try:
        found.create()
    except _faults() as error:
        raise UserError(_refusal(error, resource["kind"], namespace)) from error
    return found


def _refusal(error: BaseException, kind: str, namespace: str) -> str:
    """Return why Kubernetes did not take a resource, with what helps."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    told = f"Kubernetes did not take the {kind} in namespace {namespace} ({_line(error)}); "
    if status == 404 or "NotFound" in type(error).__name__:
        return told + (
            "install the Dask operator with its resource definitions, then see `kubectl get crd "
            "daskclusters.kubernetes.dask.org`, or create the namespace."
        )
    if status == 403:
        return told + (
            "its quota is used up (`kubectl describe quota`), or this account may not create it "
            "(`kubectl auth can-i create daskclusters`): ask for less by cluster.workers or "
            "cluster.kubernetes.memory, or grant it (deploy/kubernetes/base/access.yaml)."
        )
    return told + "`kubectl describe daskclusters` tells more."


def _await_operator(cluster: Any, namespace: str) -> None:
    """Return once the operator has begun with a cluster."""
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        cluster.refresh()
        if cluster.raw.get("status", {}).get("phase"):
            return
        time.sleep(_POLL_SECONDS)
    raise UserError(
        f"no Dask operator has taken up the cluster in namespace {namespace} within "
        f"{_READY_SECONDS:g} s; see that its pod runs (`kubectl get pods -A -l "
        "app.kubernetes.io/name=dask-kubernetes-operator`), then run the same command."
    )


def _delete(resource: Any) -> None:
    """Delete a resource; one that is gone already is no fault."""
    try:
        resource.delete()
    except _faults():
        return  # the operator deletes an idle cluster by itself


def _faults() -> tuple[type[Exception], ...]:
    """Return what a cluster that refuses, or does not answer, raises."""
    import kr8s

    return (
        kr8s.ServerError,
        kr8s.NotFoundError,
        kr8s.APITimeoutError,
        kr8s.ConnectionClosedError,
        httpx.HTTPError,
        OSError,
        ValueError,  # no credentials
    )


def _line(error: BaseException) -> str:
    """Return an error's text as one line."""
    return " ".join(str(error).split()) or type(error).__name__
