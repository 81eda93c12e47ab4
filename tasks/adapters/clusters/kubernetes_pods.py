"""A Dask cluster in pods that the Dask operator starts on Kubernetes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import httpx

from configs.errors import UserError
from configs.schema import ClusterConfig
from tasks.adapters.clusters.pod_resources import (
    API_VERSION,
    autoscaler_resource,
    cluster_resource,
    pods_of,
    scheduler_address,
)

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
