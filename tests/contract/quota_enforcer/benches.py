"""Benches: each gives the suite an enforcer, a cluster, and the hands of a person beside it.

The Kubernetes bench takes any API server by kubeconfig. It touches only namespaces it makes
itself, all of which carry the label `gpu-ledger.io/contract=true`, and deletes them again.
"""

import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from quotas.adapters.kubernetes import KubernetesQuotaEnforcer
from quotas.adapters.kueue import (
    API_VERSION,
    CONFIGURATION_KEY,
    CONFIGURATION_NAME,
    KueueQuotaEnforcer,
)
from quotas.adapters.quota_objects import OBJECT_NAME
from quotas.adapters.resource_quota_watch import KubernetesQuotaWatch
from quotas.domain.enforcement.kueue import FLAVOR, cluster_queue_name
from quotas.protocols import EnforcementEndpoint, LiveQuota, QuotaEnforcer
from quotas.protocols.drift import QuotaWatchSource
from simulator.adapters.quota_enforcer import SimulatedQuotaEnforcer
from tests.support.references import reference_to

LABEL = "gpu-ledger.io/contract"
KUEUE_NAMESPACE = "kueue-system"
MERGE_PATCH = "application/merge-patch+json"
PATIENCE_SECONDS = 10


class Bench(Protocol):
    """An enforcer and a cluster, and what a person can do to the cluster."""

    enforcer: QuotaEnforcer
    watch: QuotaWatchSource
    endpoint: EnforcementEndpoint

    def make_namespace(self) -> str: ...

    def missing_namespace(self) -> str: ...

    def edit_by_hand(self, namespace: str, hard: Mapping[str, int], *, manager: str) -> None: ...

    def delete_by_hand(self, namespace: str) -> None: ...

    def add_foreign(self, namespace: str, name: str, hard: Mapping[str, int]) -> None: ...

    def close(self) -> None: ...


class SimulatedBench:
    """Clusters in memory."""

    def __init__(self) -> None:
        self.enforcer: QuotaEnforcer = SimulatedQuotaEnforcer()
        self.watch: QuotaWatchSource = SimulatedQuotaEnforcer()
        self.endpoint = EnforcementEndpoint(f"contract-{uuid.uuid4().hex[:8]}", "", "")
        self.cluster = SimulatedQuotaEnforcer.cluster(self.endpoint.slug)

    def make_namespace(self) -> str:
        return f"contract-{uuid.uuid4().hex[:8]}"

    def missing_namespace(self) -> str:
        name = self.make_namespace()
        self.cluster.missing_namespaces.add(name)
        return name

    def edit_by_hand(self, namespace: str, hard: Mapping[str, int], *, manager: str) -> None:
        self.cluster.edit_by_hand(namespace, hard, manager=manager)

    def delete_by_hand(self, namespace: str) -> None:
        self.cluster.delete_by_hand(namespace)

    def add_foreign(self, namespace: str, name: str, hard: Mapping[str, int]) -> None:
        self.cluster.add_foreign(namespace, name, hard)

    def close(self) -> None:
        SimulatedQuotaEnforcer.purge()


class KubernetesBench:
    """A Kubernetes API server, real or simulated, by kubeconfig."""

    def __init__(self, kubeconfig: str) -> None:
        self.enforcer: QuotaEnforcer = KubernetesQuotaEnforcer()
        self.watch: QuotaWatchSource = KubernetesQuotaWatch()
        self.endpoint = EnforcementEndpoint("contract", "", reference_to(kubeconfig))
        made = config.new_client_from_config(config_file=kubeconfig)  # type: ignore[no-untyped-call]
        self.api: Any = client.CoreV1Api(made)
        self.namespaces: list[str] = []

    def make_namespace(self) -> str:
        name = f"gpu-ledger-contract-{uuid.uuid4().hex[:8]}"
        self.api.create_namespace(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": {LABEL: "true"}},
            }
        )
        self.namespaces.append(name)
        return name

    def missing_namespace(self) -> str:
        return f"gpu-ledger-contract-{uuid.uuid4().hex[:8]}"

    def edit_by_hand(self, namespace: str, hard: Mapping[str, int], *, manager: str) -> None:
        spec = {"hard": {key: str(units) for key, units in hard.items()}}
        try:
            self.api.patch_namespaced_resource_quota(
                OBJECT_NAME,
                namespace,
                {"spec": spec},
                field_manager=manager,
                _content_type=MERGE_PATCH,
            )
        except ApiException as error:
            if error.status != 404:
                raise
            self._create(namespace, OBJECT_NAME, hard, manager=manager)

    def delete_by_hand(self, namespace: str) -> None:
        self.api.delete_namespaced_resource_quota(OBJECT_NAME, namespace)

    def add_foreign(self, namespace: str, name: str, hard: Mapping[str, int]) -> None:
        self._create(namespace, name, hard, manager="kubectl-create")

    def _create(self, namespace: str, name: str, hard: Mapping[str, int], *, manager: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"hard": {key: str(units) for key, units in hard.items()}},
        }
        self.api.create_namespaced_resource_quota(namespace, body, field_manager=manager)

    def close(self) -> None:
        for name in self.namespaces:
            self.api.delete_namespace(name)
        self.api.api_client.close()


class KueueBench(KubernetesBench):
    """An API server with Kueue's queues."""

    def __init__(self, kubeconfig: str) -> None:
        super().__init__(kubeconfig)
        self.enforcer = KueueQuotaEnforcer()
        group, version = API_VERSION.split("/")
        self.queues: Any = client.CustomObjectsApi(self.api.api_client)
        self.kind = {"group": group, "version": version, "plural": "clusterqueues"}
        self.is_configured = False

    def edit_by_hand(self, namespace: str, hard: Mapping[str, int], *, manager: str) -> None:
        resources = [
            {"name": key.removeprefix("requests."), "nominalQuota": str(units)}
            for key, units in hard.items()
        ]
        flavor = {"name": "default-flavor", "resources": resources}
        group = {"coveredResources": [one["name"] for one in resources], "flavors": [flavor]}
        self.queues.patch_cluster_custom_object(
            **self.kind,
            name=cluster_queue_name(namespace),
            body={"spec": {"resourceGroups": [group]}},
            field_manager=manager,
            _content_type=MERGE_PATCH,
        )

    def delete_by_hand(self, namespace: str) -> None:
        self.queues.delete_cluster_custom_object(**self.kind, name=cluster_queue_name(namespace))

    def configure(self, configuration: Mapping[str, object] | str) -> None:
        """Write Kueue's own configuration, as its manifests or a person do."""
        is_text = isinstance(configuration, str)
        text = configuration if is_text else yaml.safe_dump(configuration)
        if not self.is_configured:
            self._make_kueue_namespace()
            self.api.create_namespaced_config_map(
                KUEUE_NAMESPACE, {"metadata": {"name": CONFIGURATION_NAME}}
            )
            self.is_configured = True
        self.api.patch_namespaced_config_map(
            CONFIGURATION_NAME, KUEUE_NAMESPACE, {"data": {CONFIGURATION_KEY: text}}
        )

    def reserve(self, namespace: str, asked: Iterable[Mapping[str, int]]) -> None:
        """Count workloads as Kueue's controller does once it has reserved their quota."""
        total = Counter[str]()
        for one in asked:
            total.update(one)
        resources = [{"name": name, "total": str(units)} for name, units in sorted(total.items())]
        self.queues.patch_cluster_custom_object_status(
            **self.kind,
            name=cluster_queue_name(namespace),
            body={"status": {"flavorsReservation": [{"name": FLAVOR, "resources": resources}]}},
            _content_type=MERGE_PATCH,
        )

    def close(self) -> None:
        if self.is_configured:
            self.api.delete_namespaced_config_map(CONFIGURATION_NAME, KUEUE_NAMESPACE)
        super().close()

    def _make_kueue_namespace(self) -> None:
        """Make Kueue's own namespace where no test before has; it stays."""
        try:
            self.api.create_namespace(
                {"metadata": {"name": KUEUE_NAMESPACE, "labels": {LABEL: "true"}}}
            )
        except ApiException as error:
            if error.status != 409:
                raise


def read_until(bench: Bench, namespace: str, hard: Mapping[str, int]) -> LiveQuota:
    """Read until the status says what is expected; controllers of real clusters lag behind."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        live = bench.enforcer.read(bench.endpoint, namespace)
        if dict(live.hard) == dict(hard) or time.monotonic() > deadline:
            return live
        time.sleep(0.1)


# NOIMPORT
