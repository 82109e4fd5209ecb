"""Protocol of quota enforcers: they apply a namespace's GPU quota in a cluster."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from quotas.domain.enforcement.refused_pods import RefusedWorkload


@dataclass(frozen=True)
class EnforcementEndpoint:
    """One cluster, as an enforcer needs it.

    Attributes:
        quota_target: What a namespace's limit becomes there: "resource_quota" or "kueue".
    """

    slug: str
    kubernetes_url: str
    credential_reference: str
    quota_target: str = "resource_quota"


@dataclass(frozen=True)
class DesiredQuota:
    """Desired quota of a namespace.

    Attributes:
        hard: ResourceQuota key, such as "requests.nvidia.com/gpu", to whole nominal units. It has
            every GPU resource of the cluster: a missing key would be unlimited.
        generation: Rises with every change; an enforcer never replaces a newer one.
        burst_hard: Key to the additional units for preemptible pods only; empty where burst was
            never granted.
        cohort: Group that shares unused units, where the target supports that; "" for none.
        is_held: Whether nothing new may start at all, as for a suspended tenant.
        is_forced: Whether fields of other managers are taken over; only when a person requests it.
    """

    namespace: str
    hard: Mapping[str, int]
    generation: int
    burst_hard: Mapping[str, int] = field(default_factory=dict)
    cohort: str = ""
    is_held: bool = False
    is_forced: bool = False


@dataclass(frozen=True)
class LiveQuota:
    """The cluster's state: `hard` and `used` from the object's status, GPU keys only.

    Attributes:
        hard: Cap of pods that are not preemptible.
        used: What the objects count, all pods together.
        generation: The newest generation stamped on our objects; 0 when none is there.
        burst_hard: Cap of preemptible pods; empty without an object for them.
        burst_used: What that object counts.
        total_hard: Cap of all pods; empty without objects by kind of pod, where `hard` is that cap.
        managers: Other field managers of the objects' spec, in alphabetical order.
        foreign: Other quotas of GPU resources in the namespace, by name: they are not ours, and
            may be tighter.
        notice: What the cluster's own configuration says about these quotas, in a sentence.
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
    notice: str = ""


@dataclass(frozen=True)
class SelectorChange:
    """What was changed in the selectors of a cluster's webhooks, if anything.

    Attributes:
        added: Namespaces that are asked about since.
        removed: Those that are not any more.
    """

    is_changed: bool = False
    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()


class QuotaConflictError(Exception):
    """Another manager owns the object's fields; they are taken over only by request.

    Attributes:
        managers: Names of the managers, in alphabetical order.
        differences: What the object says instead, a phrase for each key.
    """

    def __init__(
        self, message: str, *, managers: tuple[str, ...], differences: tuple[str, ...] = ()
    ) -> None:
        """Keep the message, the conflicting managers and what differs."""
        super().__init__(message)
        self.managers = managers
        self.differences = differences


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
    """Writes quotas to clusters. Implementations: Kubernetes, Kueue, simulated.

    Safe to share between threads.
    """

    def apply(self, endpoint: EnforcementEndpoint, desired: DesiredQuota) -> LiveQuota:
        """Apply the desired quota of a namespace, and return the cluster's state after it.

        The answer is read back from the object's status until it has caught up or a limit of
        tries is reached; the caller compares and calls it applied only when equal.

        Raises:
            QuotaConflictError: Another field manager owns a key.
            StaleGenerationError: The cluster has a newer generation.
            SourceUnavailableError: The cluster did not answer, or refused us.
        """
        ...

    def read(self, endpoint: EnforcementEndpoint, namespace: str) -> LiveQuota:
        """Return the cluster's state now.

        Raises:
            SourceUnavailableError: The cluster did not answer, or refused us.
        """
        ...

    def read_webhooks(self, endpoint: EnforcementEndpoint) -> tuple[Mapping[str, Any], ...]:
        """Return the validating webhooks of this service that the cluster has; none is empty.

        Raises:
            SourceUnavailableError: The cluster did not answer, or refused us.
        """
        ...

    def follow_bound(self, endpoint: EnforcementEndpoint, bound: Collection[str]) -> SelectorChange:
        """Make the webhooks of this service that name namespaces name these, and no other.

        Webhooks that ask about all namespaces stay as they are.

        Args:
            endpoint: Which cluster.
            bound: Namespaces of projects.

        Raises:
            SourceUnavailableError: The cluster did not answer, or refused us: `forbidden` where it
                allows us only to read them.
        """
        ...

    def read_refused(
        self, endpoint: EnforcementEndpoint, *, since: datetime
    ) -> tuple[RefusedWorkload, ...]:
        """Return the workloads that lack pods because of our quotas, the longest refused first.

        Args:
            endpoint: Which cluster.
            since: Those whose last refusal is older are left out, UTC.

        Raises:
            SourceUnavailableError: The cluster did not answer, or refused us.
        """
        ...
