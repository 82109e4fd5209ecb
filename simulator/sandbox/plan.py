"""The demo's sandbox: a third cluster in which quota can be tried by hand, pods and all.

Its API runs the pods created in it and calls our admission webhook; its ledger is fed by a real
watch. One organization of its own works there, so nothing of the month's invoices depends on it.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from simulator.cluster.tenancy import (
    NamespacePlan,
    OrganizationPlan,
    PersonPlan,
    ProjectPlan,
)
from simulator.demo.plan import PlannedLimit
from simulator.kubernetes_api import KubernetesAPI
from simulator.kubernetes_api.resources import (
    NAMESPACES,
    NODES,
    PRIORITY_CLASSES,
    Resource,
)
from simulator.kubernetes_api.store import format_time

SANDBOX: Final = "sandbox"
LEAD: Final = "theo"
ORGANIZATION_ADMIN: Final = "tara"
PEOPLE: Final = (LEAD, ORGANIZATION_ADMIN)
"""People with an API token of ours; the lead also has a bearer token of the cluster."""
BURST_CLASS: Final = "gpu-ledger-burst"

TAILSPIN: Final = OrganizationPlan(
    slug="tailspin",
    name="Tailspin Robotics",
    billing_currency="EUR",
    time_zone="UTC",
    cost_center="TR-1",
    billing_contact="Tara Novak",
    billing_email="billing@tailspin.example",
    billing_address="Tailspin Robotics B.V.\nKade 7\n1011 AB Amsterdam",
    country="NL",
    people=(
        PersonPlan(ORGANIZATION_ADMIN, "Tara Novak", "organization_admin"),
        PersonPlan(LEAD, "Theo Brandt", "project_lead", project="arm"),
    ),
    projects=(
        ProjectPlan("arm", "Robot arm", "TR-11", (NamespacePlan(SANDBOX, "arm", LEAD),)),
        ProjectPlan("fleet", "Fleet", "TR-12", (NamespacePlan(SANDBOX, "fleet"),)),
    ),
)

LIMITS: Final = (
    PlannedLimit("tailspin", "", "small", 12),
    PlannedLimit("tailspin", "", "medium", 4),
    PlannedLimit("tailspin", "", "large", 8),
    PlannedLimit("tailspin", "arm", "small", 6),
    PlannedLimit("tailspin", "arm", "medium", 2),
    PlannedLimit("tailspin", "arm", "large", 2),
    PlannedLimit("tailspin", "fleet", "large", 2),
)


@dataclass(frozen=True)
class SandboxNode:
    """One node: what it is labelled with, and what it offers."""

    name: str
    labels: dict[str, str]
    offers: dict[str, int]


NODE_PLAN: Final = (
    SandboxNode(
        "sandbox-whole-1",
        {
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
            "nvidia.com/gpu.count": "8",
            "nvidia.com/gpu.replicas": "1",
            "nvidia.com/mig.strategy": "mixed",
            "nvidia.com/mig.capable": "true",
        },
        {"nvidia.com/gpu": 8},
    ),
    SandboxNode(
        "sandbox-mig-1",
        {
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
            "nvidia.com/gpu.count": "4",
            "nvidia.com/gpu.replicas": "1",
            "nvidia.com/mig.strategy": "mixed",
            "nvidia.com/mig.capable": "true",
            "nvidia.com/mig-1g.10gb.count": "14",
            "nvidia.com/mig-3g.40gb.count": "4",
        },
        {"nvidia.com/mig-1g.10gb": 14, "nvidia.com/mig-3g.40gb": 4},
    ),
)
OFFERED: Final = tuple(sorted({name for node in NODE_PLAN for name in node.offers}))


def load_sandbox(api: KubernetesAPI, at: datetime) -> None:
    """Put nodes, namespaces and the preemptible PriorityClass into an empty API.

    Args:
        api: The sandbox's.
        at: Now.
    """
    begun = format_time(at)
    for node in NODE_PLAN:
        _put(api, NODES, node.name, begun, labels=node.labels, **_node_body(node, begun))
    for name in ("kube-system", *_namespaces()):
        labels = {"kubernetes.io/metadata.name": name}
        _put(api, NAMESPACES, name, begun, labels=labels, status={"phase": "Active"})
    _put(
        api,
        PRIORITY_CLASSES,
        BURST_CLASS,
        begun,
        value=-1000,
        preemptionPolicy="Never",
        globalDefault=False,
        description="Beyond the nominal quota; ended when others need the devices.",
    )


def _namespaces() -> list[str]:
    return [place.namespace for project in TAILSPIN.projects for place in project.namespaces]


def _node_body(node: SandboxNode, begun: str) -> dict[str, Any]:
    amounts = {name: str(units) for name, units in node.offers.items()}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": begun}
    return {
        "spec": {},
        "status": {"allocatable": amounts, "capacity": dict(amounts), "conditions": [ready]},
    }


def _put(
    api: KubernetesAPI,
    resource: Resource,
    name: str,
    begun: str,
    *,
    labels: dict[str, str] | None = None,
    **body: Any,  # noqa: ANN401 - JSON is any value.
) -> None:
    metadata = {
        "name": name,
        "uid": f"{resource.plural}-{name}",
        "creationTimestamp": begun,
        "labels": dict(labels or {}),
    }
    api.store.put(resource, ("", name), {"metadata": metadata, **body})
