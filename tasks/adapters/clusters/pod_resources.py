"""Pods of the Dask operator as resources, without a cluster to send them to."""

from typing import Any

from configs.cluster_kinds import KubernetesConfig
from configs.errors import UserError
from configs.schema import ClusterConfig

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
