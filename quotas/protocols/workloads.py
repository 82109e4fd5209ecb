"""Protocol of workload evictors: they suspend Jobs and evict pods gracefully.

Every step is idempotent, and leaves objects with another uid alone.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from quotas.protocols import EnforcementEndpoint


class EvictionOutcome(StrEnum):
    """What became of one step."""

    STARTED = "started"
    """The cluster took it: the pods are being deleted, and hold their devices until they are."""
    GONE = "gone"
    """It is not there any more; nothing was done."""
    CHANGED = "changed"
    """Another object has the name by now (the uid differs); nothing was done."""
    BLOCKED = "blocked"
    """A PodDisruptionBudget does not allow it now; retry later."""
    MISCONFIGURED = "misconfigured"
    """Several PodDisruptionBudgets match, which no eviction can satisfy: a person is needed."""
    WOULD_START = "would_start"
    """A dry run: the cluster would take it."""


@dataclass(frozen=True)
class WorkloadReference:
    """One object of a cluster, meant by its uid and not only by its name.

    Attributes:
        kind: "Pod" or "Job".
        uid: Of the object; a step against another uid does nothing.
    """

    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True)
class EvictionAnswer:
    """The cluster's answer.

    Attributes:
        retry_after: How long to wait when blocked; None when the cluster did not say.
        message: The cluster's sentence, "" for none.
    """

    outcome: EvictionOutcome
    retry_after: timedelta | None = None
    message: str = ""


@dataclass(frozen=True)
class JobOfPod:
    """A Job, and the pods that are its own.

    Attributes:
        can_be_suspended: Whether the server supports it (Kubernetes 1.22 and later), and it has not
            ended.
        pod_uids: Of the pods that are there and name this very Job, by its uid, as their
            controller. Pods of an older Job of the same name are not among them.
    """

    reference: WorkloadReference
    is_suspended: bool
    can_be_suspended: bool
    pod_uids: frozenset[str] = frozenset()


class WorkloadEvictor(Protocol):
    """Ends workloads. Implementations: Kubernetes, simulated."""

    def suspend_job(
        self, endpoint: EnforcementEndpoint, job: WorkloadReference, *, is_dry_run: bool
    ) -> EvictionAnswer:
        """Set `spec.suspend` of a Job, so that its pods go and it can be resumed later.

        A Job that is suspended already is `STARTED` all the same.

        Raises:
            SourceUnavailableError: The cluster did not answer, or refused us.
        """
        ...

    def resume_job(self, endpoint: EnforcementEndpoint, job: WorkloadReference) -> EvictionAnswer:
        """Take `spec.suspend` of a Job back: its pods are made again, and admitted or not.

        Raises:
            SourceUnavailableError: The cluster did not answer, or refused us.
        """
        ...

    def evict_pod(
        self,
        endpoint: EnforcementEndpoint,
        pod: WorkloadReference,
        *,
        grace_seconds: int | None,
        is_dry_run: bool,
    ) -> EvictionAnswer:
        """Evict one pod through the Eviction API, with its uid as a precondition.

        Args:
            endpoint: Which cluster.
            pod: Which pod.
            grace_seconds: None takes the pod's own.
            is_dry_run: Only check whether it would be accepted.

        Raises:
            SourceUnavailableError: The cluster did not answer, or refused us.
        """
        ...

    def find_job(
        self, endpoint: EnforcementEndpoint, *, namespace: str, name: str
    ) -> JobOfPod | None:
        """Return a Job by name, with its pods; None when there is none.

        Raises:
            SourceUnavailableError: The cluster did not answer, or refused us.
        """
        ...
