"""What quotas need from outside: somebody who makes a namespace's GPU quota true in a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class EnforcementEndpoint:
    """One cluster, as an enforcer needs to know it.

    Attributes:
        quota_target: What a namespace's limit becomes there: "resource_quota" or "kueue".
    """

    slug: str
    kubernetes_url: str
    credential_reference: str
    quota_target: str = "resource_quota"


@dataclass(frozen=True)
class DesiredQuota:
    """What a namespace's quota should say.

    Attributes:
        hard: ResourceQuota key, such as "requests.nvidia.com/gpu", to whole nominal units. Every
            GPU resource the cluster offers stands here: a key left out would be unlimited.
        generation: Rises with every change; an enforcer never replaces a newer one.
        burst_hard: Key to units that preemptible pods may hold beyond, and only they; empty where
            burst was never granted.
        cohort: With whom unused units are shared where the target can do that; "" for nobody.
        is_held: Whether nothing new may start at all, as for a suspended tenant.
    """

    namespace: str
    hard: Mapping[str, int]
    generation: int
    burst_hard: Mapping[str, int] = field(default_factory=dict)
    cohort: str = ""
    is_held: bool = False


@dataclass(frozen=True)
class LiveQuota:
    """What the cluster says: `hard` and `used` from the object's status, GPU keys only.

    Attributes:
        hard: What pods that are not preemptible are held to.
        used: What the objects count, all pods together.
        generation: The newest generation stamped on our objects; 0 when none is there.
        burst_hard: What preemptible pods are held to; empty without an object for them.
        burst_used: What that object counts.
        total_hard: What all pods together are held to; empty without objects by kind of pod, where
            `hard` says it.
        managers: Others who have written the objects' wishes, in alphabetical order.
        foreign: Other quotas of GPU resources in the namespace, by name: they are not ours, and
            may be tighter.
    """

    namespace: str
    hard: Mapping[str, int]
    used: Mapping[str, int]
    generation: int
    burst_hard: Mapping[str, int] = field(default_factory=dict)
    burst_used: Mapping[str, int] = field(default_factory=dict)
    total_hard: Mapping[str, int] = field(default_factory=dict)
    managers: tuple[str, ...] = ()
    foreign: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


class QuotaConflictError(Exception):
    """Another manager owns the object's fields; it is reported, never forced.

    Attributes:
        managers: Names of the managers, in alphabetical order.
    """

    def __init__(self, message: str, *, managers: tuple[str, ...]) -> None:
        """Keep the sentence and who is in the way."""
        super().__init__(message)
        self.managers = managers


class StaleGenerationError(Exception):
    """The cluster already has a newer generation.

    Attributes:
        generation: The one the cluster has.
    """

    def __init__(self, message: str, *, generation: int) -> None:
        """Keep the sentence and the newer generation."""
        super().__init__(message)
        self.generation = generation


class QuotaEnforcer(Protocol):
    """Somebody who writes quotas. Implementations: Kubernetes, Kueue, simulated.

    Safe to share between threads.
    """

    def apply(self, endpoint: EnforcementEndpoint, desired: DesiredQuota) -> LiveQuota:
        """Make a namespace's quota say what is desired, and return what the cluster then says.

        The answer is read back from the object's status until it has caught up or a limit of
        tries is reached; the caller compares and calls it applied only when equal.

        Raises:
            QuotaConflictError: Another field manager owns a key.
            StaleGenerationError: The cluster has a newer generation.
            SourceUnavailableError: The cluster did not answer, or refused us.
        """
        ...

    def read(self, endpoint: EnforcementEndpoint, namespace: str) -> LiveQuota:
        """Return what the cluster says now.

        Raises:
            SourceUnavailableError: The cluster did not answer, or refused us.
        """
        ...
