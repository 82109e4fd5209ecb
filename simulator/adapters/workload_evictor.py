"""A simulated evictor: pods and Jobs in memory that end as Kubernetes ends them.

One store per process and cluster slug. A pod that was evicted stays, ending, until `finish` is
called, as a kubelet would; a suspended Job deletes its pods, and a resumed one makes none.
"""

from dataclasses import dataclass
from datetime import timedelta
from threading import RLock
from typing import ClassVar

from quotas.protocols import EnforcementEndpoint
from quotas.protocols.workloads import (
    EvictionAnswer,
    EvictionOutcome,
    JobOfPod,
    WorkloadReference,
)
from tenants.domain.errors import SourceUnavailableError

Place = tuple[str, str]
"""Namespace and name."""


@dataclass
class SimulatedPod:
    """One pod: whether it is ending, of which Job it is, and what its budgets say.

    Attributes:
        job: Name of the Job that made it; "" for none.
        job_uid: Of that Job; another of the same name differs.
        budgets: How many PodDisruptionBudgets match it.
        spare: How many pods those may still lose; None when they allow any.
    """

    uid: str
    job: str = ""
    job_uid: str = ""
    is_ending: bool = False
    budgets: int = 0
    spare: int | None = None
    retry_after: timedelta | None = None


@dataclass
class SimulatedJob:
    """One Job."""

    uid: str
    is_suspended: bool = False
    can_be_suspended: bool = True


class SimulatedWorkloads:
    """One cluster's workloads in memory.

    Attributes:
        failure: Why nothing is answered, such as "timeout"; "" while the cluster is well.
        asked: Every call, oldest first, as (verb, namespace, name).
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self.pods: dict[Place, SimulatedPod] = {}
        self.jobs: dict[Place, SimulatedJob] = {}
        self.failure = ""
        self.asked: list[tuple[str, str, str]] = []

    def run(self, namespace: str, name: str, uid: str, *, job: str = "") -> SimulatedPod:
        """Add a running pod, optionally of an existing Job."""
        with self.lock:
            job_uid = self.jobs[namespace, job].uid if job else ""
            self.pods[namespace, name] = SimulatedPod(uid, job, job_uid)
            return self.pods[namespace, name]

    def make_job(self, namespace: str, name: str, uid: str) -> SimulatedJob:
        """Create a Job, also under a name used before; its pods are added one by one."""
        with self.lock:
            self.jobs[namespace, name] = SimulatedJob(uid)
            return self.jobs[namespace, name]

    def finish(self) -> list[str]:
        """Delete every terminating pod, and return their uids in alphabetical order."""
        with self.lock:
            gone = {place: pod for place, pod in self.pods.items() if pod.is_ending}
            for place in gone:
                del self.pods[place]
            return sorted(pod.uid for pod in gone.values())


class SimulatedWorkloadEvictor:
    """Ends workloads of simulated clusters."""

    _clusters: ClassVar[dict[str, SimulatedWorkloads]] = {}
    _lock: ClassVar[RLock] = RLock()

    @classmethod
    def cluster(cls, slug: str) -> SimulatedWorkloads:
        """Return a cluster of this process, created on first use."""
        with cls._lock:
            return cls._clusters.setdefault(slug, SimulatedWorkloads())

    @classmethod
    def purge(cls) -> None:
        """Delete every cluster of this process."""
        with cls._lock:
            cls._clusters.clear()

    def suspend_job(
        self, endpoint: EnforcementEndpoint, job: WorkloadReference, *, is_dry_run: bool
    ) -> EvictionAnswer:
        """Set `spec.suspend` of a Job; see `WorkloadEvictor.suspend_job`."""
        cluster = self._answering(endpoint)
        with cluster.lock:
            refused = _refused(cluster.jobs.get((job.namespace, job.name)), job)
            if refused is not None:
                return refused
            if is_dry_run:
                return EvictionAnswer(EvictionOutcome.WOULD_START)
            cluster.asked.append(("suspend", job.namespace, job.name))
            cluster.jobs[job.namespace, job.name].is_suspended = True
            for pod in _pods_of(cluster, job):
                pod.is_ending = True
            return EvictionAnswer(EvictionOutcome.STARTED)

    def resume_job(self, endpoint: EnforcementEndpoint, job: WorkloadReference) -> EvictionAnswer:
        """Take `spec.suspend` of a Job back; see `WorkloadEvictor.resume_job`."""
        cluster = self._answering(endpoint)
        with cluster.lock:
            refused = _refused(cluster.jobs.get((job.namespace, job.name)), job)
            if refused is not None:
                return refused
            cluster.asked.append(("resume", job.namespace, job.name))
            cluster.jobs[job.namespace, job.name].is_suspended = False
            return EvictionAnswer(EvictionOutcome.STARTED)

    def evict_pod(
        self,
        endpoint: EnforcementEndpoint,
        pod: WorkloadReference,
        *,
        grace_seconds: int | None,  # noqa: ARG002 - Nothing takes its time here.
        is_dry_run: bool,
    ) -> EvictionAnswer:
        """Evict one pod; see `WorkloadEvictor.evict_pod`."""
        cluster = self._answering(endpoint)
        with cluster.lock:
            found = cluster.pods.get((pod.namespace, pod.name))
            refused = _refused(found, pod)
            if refused is not None or found is None:
                return refused or EvictionAnswer(EvictionOutcome.GONE)
            blocked = _blocked(found)
            if blocked is not None:
                return blocked
            if is_dry_run:
                return EvictionAnswer(EvictionOutcome.WOULD_START)
            cluster.asked.append(("evict", pod.namespace, pod.name))
            found.is_ending = True
            return EvictionAnswer(EvictionOutcome.STARTED)

    def find_job(
        self, endpoint: EnforcementEndpoint, *, namespace: str, name: str
    ) -> JobOfPod | None:
        """Return a Job by name; see `WorkloadEvictor.find_job`."""
        cluster = self._answering(endpoint)
        with cluster.lock:
            job = cluster.jobs.get((namespace, name))
            if job is None:
                return None
            reference = WorkloadReference("Job", namespace, name, job.uid)
            pod_uids = frozenset(pod.uid for pod in _pods_of(cluster, reference))
            return JobOfPod(reference, job.is_suspended, job.can_be_suspended, pod_uids)

    def _answering(self, endpoint: EnforcementEndpoint) -> SimulatedWorkloads:
        cluster = self.cluster(endpoint.slug)
        if cluster.failure:
            raise SourceUnavailableError("The cluster did not answer.", reason=cluster.failure)
        return cluster


def _pods_of(cluster: SimulatedWorkloads, job: WorkloadReference) -> list[SimulatedPod]:
    return [
        pod
        for (namespace, _), pod in cluster.pods.items()
        if (namespace, pod.job, pod.job_uid) == (job.namespace, job.name, job.uid)
    ]


def _refused(
    found: SimulatedPod | SimulatedJob | None, meant: WorkloadReference
) -> EvictionAnswer | None:
    if found is None:
        return EvictionAnswer(EvictionOutcome.GONE)
    if found.uid != meant.uid:
        return EvictionAnswer(EvictionOutcome.CHANGED, message=f"{meant.name} was made anew.")
    return None


def _blocked(pod: SimulatedPod) -> EvictionAnswer | None:
    if pod.budgets > 1:
        return EvictionAnswer(
            EvictionOutcome.MISCONFIGURED,
            message="This pod has more than one PodDisruptionBudget.",
        )
    if pod.spare == 0 and not pod.is_ending:
        return EvictionAnswer(
            EvictionOutcome.BLOCKED,
            pod.retry_after,
            "Cannot evict pod as it would violate the pod's disruption budget.",
        )
    return None
