"""Jobs: their pods are made, counted, and deleted while a Job is suspended.

As much of the controller as quotas and preemption meet: no failure, no backoff, no indexes.
Source: kubernetes/pkg/controller/job/job_controller.go.
"""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Final

from simulator.kubernetes_api.errors import JSON, StatusError
from simulator.kubernetes_api.incoming import Writing, printed_time
from simulator.kubernetes_api.pod_usage import TERMINAL
from simulator.kubernetes_api.removing import Remover
from simulator.kubernetes_api.resources import JOBS, PODS
from simulator.kubernetes_api.store import Key, ObjectStore
from simulator.kubernetes_api.users import service_account
from simulator.kubernetes_api.writing import Writer

_MANAGER: Final = "kube-controller-manager"
_USER: Final = service_account("kube-system", "job-controller", uid="job-controller")


class JobController:
    """Brings every Job to what it says; its pods pass admission like everybody's.

    Args:
        store: Where the objects are.
        writer: Makes pods.
        remover: Deletes them.
        clock: Returns the present moment, aware UTC.
    """

    def __init__(
        self,
        store: ObjectStore,
        writer: Writer,
        remover: Remover,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        """Keep what does the work."""
        self._store = store
        self._writer = writer
        self._remover = remover
        self._clock = clock

    def reconcile(self) -> None:
        """Do the next step for every Job."""
        for key, job in self._store.items(JOBS):
            if "deletionTimestamp" not in job["metadata"]:
                self._step(key, job)

    def _step(self, key: Key, job: JSON) -> None:
        pods = self._pods(job)
        active = [pod for pod in pods if _is_active(pod)]
        finished = _finished(job, pods)
        if finished or job["spec"].get("suspend"):
            self._end(active)
        else:
            self._begin(key, job, pods, len(active))
        self._count(key, job, finished)

    def _pods(self, job: JSON) -> list[JSON]:
        uid = job["metadata"]["uid"]
        return [
            pod
            for _, pod in self._store.items(PODS, job["metadata"]["namespace"])
            if any(one["uid"] == uid for one in pod["metadata"].get("ownerReferences") or [])
        ]

    def _end(self, active: list[JSON]) -> None:
        for pod in active:
            key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
            self._try(partial(self._remover.delete, PODS, key, {}, _how()))

    def _begin(self, key: Key, job: JSON, pods: list[JSON], active: int) -> None:
        missing = job["spec"]["parallelism"] - active
        completions = job["spec"].get("completions")
        if completions is not None:
            missing = min(missing, completions - _count_of(pods, "Succeeded") - active)
        for _ in range(missing):
            if not self._try(partial(self._writer.create, PODS, key[0], pod_of(job), _how())):
                return

    def _count(self, key: Key, job: JSON, finished: str) -> None:
        with self._store.lock:
            live = self._store.get(JOBS, key)
            if live is None or live["metadata"]["uid"] != job["metadata"]["uid"]:
                return
            status = self._status(live, finished)
            if status != live.get("status"):
                self._store.put(JOBS, key, {**live, "status": status})

    def _status(self, job: JSON, finished: str) -> JSON:
        pods = self._pods(job)
        before: JSON = job.get("status") or {}
        now = printed_time(self._clock())
        counts = {
            "active": sum(_is_active(pod) for pod in pods),
            "succeeded": _count_of(pods, "Succeeded"),
            "failed": _count_of(pods, "Failed"),
        }
        status: JSON = {name: count for name, count in counts.items() if count}
        conditions = {one["type"]: one for one in before.get("conditions") or []}
        is_suspended = bool(job["spec"].get("suspend")) and not finished
        if is_suspended or "Suspended" in conditions:
            _turn(conditions, "Suspended", now, is_true=is_suspended)
        if finished:
            _turn(conditions, finished, now, is_true=True)
        if conditions:
            status["conditions"] = list(conditions.values())
        if not is_suspended:
            status["startTime"] = before.get("startTime", now)
        return status

    def _try(self, act: Callable[[], object]) -> bool:
        """Whether a write went through; a refusal, such as a full quota's, is tried again later."""
        try:
            act()
        except StatusError:
            return False
        return True


def pod_of(job: JSON) -> JSON:
    """Return a new pod of a Job's template, owned by it."""
    metadata, template = job["metadata"], job["spec"]["template"]
    owner = {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    own = {"generateName": f"{metadata['name']}-", "ownerReferences": [owner]}
    return {"metadata": {**(template.get("metadata") or {}), **own}, "spec": template["spec"]}


def _how() -> Writing:
    return Writing(manager=_MANAGER, user=_USER)


def _is_active(pod: JSON) -> bool:
    return pod["status"].get("phase") not in TERMINAL and (
        "deletionTimestamp" not in pod["metadata"]
    )


def _count_of(pods: list[JSON], phase: str) -> int:
    return sum(pod["status"].get("phase") == phase for pod in pods)


def _finished(job: JSON, pods: list[JSON]) -> str:
    """Return the condition that a Job has come to; "" while it goes on."""
    known = {one["type"] for one in (job.get("status") or {}).get("conditions") or []}
    completions = job["spec"].get("completions")
    is_complete = completions is not None and _count_of(pods, "Succeeded") >= completions
    if "Complete" in known or is_complete:
        return "Complete"
    return ""


def _turn(conditions: dict[str, JSON], kind: str, now: str, *, is_true: bool) -> None:
    """Set a condition; its time moves only when it changes."""
    value = str(is_true)
    if conditions.get(kind, {}).get("status") != value:
        conditions[kind] = {"type": kind, "status": value, "lastTransitionTime": now}
