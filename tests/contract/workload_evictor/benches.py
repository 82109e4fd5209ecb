"""Benches: an evictor, a cluster, and the hands of its tenants beside it.

The Kubernetes bench takes any API server by kubeconfig. It touches only namespaces it makes
itself, all of which carry the label `gpu-ledger.io/contract=true`, and deletes them again.
"""

import time
import uuid
from typing import Any, Protocol

from kubernetes import client, config

from quotas.adapters.kubernetes_workloads import KubernetesWorkloadEvictor
from quotas.protocols import EnforcementEndpoint
from quotas.protocols.workloads import WorkloadEvictor
from simulator.adapters.workload_evictor import SimulatedPod, SimulatedWorkloadEvictor
from tests.contract.kubernetes.conftest import bind, set_phase, wait_for
from tests.support.kubernetes.server import Server, discover
from tests.support.kubernetes.wire import Wire
from tests.support.references import reference_to

LABEL = "gpu-ledger.io/contract"
APP = {"app": "serving"}
SUSPENDING = "1.24"
"""From here on every server can suspend Jobs."""


class Bench(Protocol):
    """An evictor and a cluster, and what others do in the cluster."""

    evictor: WorkloadEvictor
    endpoint: EnforcementEndpoint
    suspends_jobs: bool

    def make_namespace(self) -> str: ...

    def run_pod(self, namespace: str, name: str) -> str: ...

    def make_budget(self, namespace: str, least: int, *, name: str = "serving") -> None: ...

    def run_job(self, namespace: str, name: str) -> str: ...

    def delete_job(self, namespace: str, name: str) -> None: ...

    def pods_left(self, namespace: str) -> list[str]: ...

    def uids(self, namespace: str) -> dict[str, str]: ...

    def close(self) -> None: ...


class SimulatedBench:
    """Workloads in memory."""

    def __init__(self) -> None:
        self.evictor: WorkloadEvictor = SimulatedWorkloadEvictor()
        self.endpoint = EnforcementEndpoint(f"contract-{uuid.uuid4().hex[:8]}", "", "")
        self.cluster = SimulatedWorkloadEvictor.cluster(self.endpoint.slug)
        self.suspends_jobs = True

    def make_namespace(self) -> str:
        return f"contract-{uuid.uuid4().hex[:8]}"

    def run_pod(self, namespace: str, name: str) -> str:
        return self.cluster.run(namespace, name, str(uuid.uuid4())).uid

    def make_budget(self, namespace: str, least: int, *, name: str = "serving") -> None:
        del name
        pods = self._pods(namespace)
        for pod in pods:
            pod.budgets += 1
            pod.spare = len(pods) - least

    def run_job(self, namespace: str, name: str) -> str:
        job = self.cluster.make_job(namespace, name, str(uuid.uuid4()))
        self.cluster.run(namespace, f"{name}-0", str(uuid.uuid4()), job=name)
        return job.uid

    def delete_job(self, namespace: str, name: str) -> None:
        del self.cluster.jobs[namespace, name]

    def pods_left(self, namespace: str) -> list[str]:
        """Return the pods that are not ending, by name."""
        return sorted(
            name
            for (place, name), pod in self.cluster.pods.items()
            if place == namespace and not pod.is_ending
        )

    def uids(self, namespace: str) -> dict[str, str]:
        """Return the uids of all pods, by name."""
        return {
            name: pod.uid for (place, name), pod in self.cluster.pods.items() if place == namespace
        }

    def close(self) -> None:
        SimulatedWorkloadEvictor.purge()

    def _pods(self, namespace: str) -> list[SimulatedPod]:
        return [pod for (place, _), pod in self.cluster.pods.items() if place == namespace]


class KubernetesBench:
    """A Kubernetes API server, real or simulated, by kubeconfig."""

    def __init__(self, kubeconfig: str) -> None:
        self.evictor: WorkloadEvictor = KubernetesWorkloadEvictor()
        self.endpoint = EnforcementEndpoint("contract", "", reference_to(kubeconfig))
        made = config.new_client_from_config(config_file=kubeconfig)  # type: ignore[no-untyped-call]
        self.core: Any = client.CoreV1Api(made)
        self.batch: Any = client.BatchV1Api(made)
        self.wire = Wire(made.configuration)
        self.server: Server = discover(self.wire)
        self.suspends_jobs = self.server.has(SUSPENDING)
        self.namespaces: list[str] = []

    def make_namespace(self) -> str:
        name = f"gpu-ledger-contract-{uuid.uuid4().hex[:8]}"
        self.core.create_namespace({"metadata": {"name": name, "labels": {LABEL: "true"}}})
        self.namespaces.append(name)
        accounts = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        wait_for(lambda: self.wire.get(accounts).code == 200)
        return name

    def run_pod(self, namespace: str, name: str) -> str:
        body = {"metadata": {"name": name, "labels": APP}, "spec": _pod_spec()}
        made = self.core.create_namespaced_pod(namespace, body)
        bind(self.core, namespace, name)
        set_phase(self.core, namespace, name, "Running", is_ready=True)
        return str(made.metadata.uid)

    def make_budget(self, namespace: str, least: int, *, name: str = "serving") -> None:
        path = f"/apis/{self.server.policy}/namespaces/{namespace}/poddisruptionbudgets"
        body = {
            "apiVersion": self.server.policy,
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name},
            "spec": {"minAvailable": least, "selector": {"matchLabels": APP}},
        }
        assert self.wire.post(path, body).code == 201
        healthy = len(self.pods_left(namespace))

        def is_counted() -> bool:
            status = self.wire.get(f"{path}/{name}").body.get("status", {})
            return bool(status.get("observedGeneration")) and status["currentHealthy"] == healthy

        wait_for(is_counted)

    def run_job(self, namespace: str, name: str) -> str:
        template = {"spec": {**_pod_spec(), "restartPolicy": "Never"}}
        body = {"metadata": {"name": name}, "spec": {"template": template}}
        before = len(self.pods_left(namespace))
        made = self.batch.create_namespaced_job(namespace, body)
        wait_for(lambda: len(self.pods_left(namespace)) == before + 1)
        return str(made.metadata.uid)

    def delete_job(self, namespace: str, name: str) -> None:
        self.batch.delete_namespaced_job(name, namespace, propagation_policy="Background")
        path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}"
        wait_for(lambda: self.wire.get(path).code == 404)

    def pods_left(self, namespace: str) -> list[str]:
        """Return the pods that are not ending, by name."""
        return sorted(
            one.metadata.name
            for one in self.core.list_namespaced_pod(namespace).items
            if one.metadata.deletion_timestamp is None
        )

    def uids(self, namespace: str) -> dict[str, str]:
        """Return the uids of all pods, by name."""
        pods = self.core.list_namespaced_pod(namespace).items
        return {one.metadata.name: one.metadata.uid for one in pods}

    def close(self) -> None:
        for name in self.namespaces:
            self.core.delete_namespace(name)
        self.core.api_client.close()


def _pod_spec() -> dict[str, Any]:
    return {
        "containers": [{"name": "main", "image": "example.com/none:1"}],
        "automountServiceAccountToken": False,
        "schedulerName": "gpu-ledger-contract",
    }


def wait_until_left(bench: Bench, namespace: str, names: int) -> list[str]:
    """Return the pods that are left once there are so many, or at last."""
    deadline = time.monotonic() + 20
    while len(left := bench.pods_left(namespace)) != names and time.monotonic() < deadline:
        time.sleep(0.05)
    return left
