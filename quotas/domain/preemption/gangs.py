"""Gangs: pods that go together; without one another they are worth nothing, or free nothing."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from quotas.domain.preemption.overage import PodUnits

GANG_KINDS: Final = frozenset(
    {
        "Job",
        "JobSet",
        "LeaderWorkerSet",
        "MPIJob",
        "PodGroup",
        "PyTorchJob",
        "RayJob",
        "TFJob",
    }
)
"""Controllers whose pods are useless without each other."""
GangKey = tuple[str, str, str]
"""Cluster, namespace, and what holds a gang together."""


@dataclass(frozen=True)
class Candidate:
    """One pod that holds units, or waits for units with its gang.

    Attributes:
        controller: "Kind/name"; "" without one.
        priority: The value of its PriorityClass; 0 when none is known.
        holdings: What it holds; empty while it is not bound to a node.
        is_ending: Whether its deletion was requested: its units count as free.
        protection: Why it may not be preempted now; "" when it may.
        project: Its project.
        username: The user it counts for.
        claims: Names of the device claims it uses: pods that share one are preempted with it.
    """

    cluster: str
    namespace: str
    pod_name: str
    pod_uid: str
    controller: str
    priority_class: str
    priority: int
    began_at: datetime
    holdings: tuple[PodUnits, ...]
    is_ending: bool = False
    protection: str = ""
    project: str = ""
    username: str = ""
    claims: frozenset[str] = frozenset()


def gang_of(pod: Candidate) -> GangKey:
    """Return the key of a gang: the gang controller, or the pod alone."""
    kind = pod.controller.partition("/")[0]
    name = pod.controller if kind in GANG_KINDS else f"Pod/{pod.pod_name}/{pod.pod_uid}"
    return pod.cluster, pod.namespace, name


def gangs_of(pods: Iterable[Candidate]) -> dict[GangKey, list[Candidate]]:
    """Return pods by gang: of one gang controller, or joined by device claims.

    A claim that several pods share is free when all of them are gone, so it joins their gangs.
    """
    everybody = list(pods)
    roots: dict[GangKey, GangKey] = {}
    for pod in everybody:
        own = _root(roots, gang_of(pod))
        for claim in sorted(pod.claims):
            other = _root(roots, (pod.cluster, pod.namespace, f"ResourceClaim/{claim}"))
            # The smaller name leads, whatever the order of the pods.
            roots[max(own, other)] = min(own, other)
            own = min(own, other)
    gangs: dict[GangKey, list[Candidate]] = {}
    for pod in everybody:
        gangs.setdefault(_root(roots, gang_of(pod)), []).append(pod)
    return gangs


def _root(roots: dict[GangKey, GangKey], key: GangKey) -> GangKey:
    """Return the key that leads the gang of a key."""
    leader = roots.setdefault(key, key)
    while roots[leader] != leader:
        leader = roots[leader]
    roots[key] = leader
    return leader
