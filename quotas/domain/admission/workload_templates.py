"""Workload templates: where the kinds that make pods keep what their pods shall be.

A kind that is not in the table is not stamped: its pods belong to the namespace's default owner,
unless its operator copies an annotation of its own and is trusted.
Source: the API references of Kubernetes 1.34, Kubeflow training operator v1 and MPI operator
v2beta1, KubeRay v1, Kubeflow notebooks v1, JobSet v1alpha2.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from quotas.domain.admission.pod_fields import JSON, PodInvalidError, mapping

EACH: Final = "*"
"""Every entry of a list or of an object."""
BY_NAME: Final = frozenset({"pytorchReplicaSpecs", "mpiReplicaSpecs"})
"""Fields with EACH that are objects; all others are lists."""
TEMPLATES_MAX: Final = 200


@dataclass(frozen=True)
class WorkloadKind:
    """One kind of object that makes pods.

    Attributes:
        plural: As rules of webhooks name it.
        paths: Where its pod templates are; EACH stands for every entry.
        replicas: Beside each path, the field that says how many pods of it run at once, from the
            same root; "" for one.
    """

    group: str
    plural: str
    paths: tuple[tuple[str, ...], ...]
    replicas: tuple[tuple[str, ...], ...]


def _one(group: str, plural: str, path: str, replicas: str) -> WorkloadKind:
    return WorkloadKind(group, plural, (_path(path),), (_path(replicas),))


def _path(dotted: str) -> tuple[str, ...]:
    return tuple(dotted.split(".")) if dotted else ()


def _ray(plural: str, prefix: str) -> WorkloadKind:
    head, workers = f"{prefix}.headGroupSpec.template", f"{prefix}.workerGroupSpecs.*.template"
    return WorkloadKind(
        "ray.io",
        plural,
        (_path(head), _path(workers)),
        ((), _path(f"{prefix}.workerGroupSpecs.*.replicas")),
    )


KINDS: Final[Mapping[tuple[str, str], WorkloadKind]] = {
    ("batch", "Job"): _one("batch", "jobs", "spec.template", "spec.parallelism"),
    ("batch", "CronJob"): _one(
        "batch",
        "cronjobs",
        "spec.jobTemplate.spec.template",
        "spec.jobTemplate.spec.parallelism",
    ),
    ("apps", "Deployment"): _one("apps", "deployments", "spec.template", "spec.replicas"),
    ("apps", "StatefulSet"): _one("apps", "statefulsets", "spec.template", "spec.replicas"),
    ("apps", "ReplicaSet"): _one("apps", "replicasets", "spec.template", "spec.replicas"),
    ("apps", "DaemonSet"): _one("apps", "daemonsets", "spec.template", ""),
    ("", "ReplicationController"): _one(
        "", "replicationcontrollers", "spec.template", "spec.replicas"
    ),
    ("kubeflow.org", "PyTorchJob"): _one(
        "kubeflow.org",
        "pytorchjobs",
        "spec.pytorchReplicaSpecs.*.template",
        "spec.pytorchReplicaSpecs.*.replicas",
    ),
    ("kubeflow.org", "MPIJob"): _one(
        "kubeflow.org",
        "mpijobs",
        "spec.mpiReplicaSpecs.*.template",
        "spec.mpiReplicaSpecs.*.replicas",
    ),
    ("kubeflow.org", "Notebook"): _one("kubeflow.org", "notebooks", "spec.template", ""),
    ("ray.io", "RayCluster"): _ray("rayclusters", "spec"),
    ("ray.io", "RayJob"): _ray("rayjobs", "spec.rayClusterSpec"),
    ("jobset.x-k8s.io", "JobSet"): _one(
        "jobset.x-k8s.io",
        "jobsets",
        "spec.replicatedJobs.*.template.spec.template",
        "spec.replicatedJobs.*.replicas",
    ),
}
"""By API group and kind."""


@dataclass(frozen=True)
class Template:
    """One pod template in an object.

    Attributes:
        path: Where it is, from the object's root, as JSON patch needs it.
        pod: The template itself.
        replicas: How many pods of it run at once; 1 when not set.
    """

    path: tuple[str, ...]
    pod: JSON
    replicas: int


def templates_of(group: str, kind: str, obj: JSON) -> tuple[Template, ...]:
    """Return the pod templates of an object, in the order of its fields; none of unknown kinds.

    Raises:
        PodInvalidError: It is no object of its kind.
    """
    known = KINDS.get((group, kind))
    if known is None:
        return ()
    found: list[Template] = []
    for path, replicas in zip(known.paths, known.replicas, strict=True):
        counts = dict(_walk(obj, replicas)) if replicas else {}
        for place, pod in _walk(obj, path):
            if len(found) >= TEMPLATES_MAX:
                raise PodInvalidError(f"The {kind} has more than {TEMPLATES_MAX} pod templates.")
            count = _count(counts, place, path, replicas)
            found.append(Template(place, mapping(pod, "/".join(place)), count))
    return tuple(found)


def _walk(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield every location that a path matches, and its value."""
    if not path:
        yield (), value
        return
    for key, entry in _steps(value, path[0]):
        for place, found in _walk(entry, path[1:]):
            yield (key, *place), found


def _steps(value: object, step: str) -> Iterator[tuple[str, object]]:
    if step == EACH and isinstance(value, list):
        yield from ((str(index), entry) for index, entry in enumerate(value))
    elif step == EACH and isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, dict) and value.get(step) is not None:
        yield step, value[step]


def _count(
    counts: Mapping[tuple[str, ...], object],
    place: tuple[str, ...],
    path: tuple[str, ...],
    replicas: tuple[str, ...],
) -> int:
    """Return the replicas beside a template; each EACH is replaced alike in both paths."""
    given = iter(place[index] for index, step in enumerate(path) if step == EACH)
    count = counts.get(tuple(next(given, "") if step == EACH else step for step in replicas), 1)
    return count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else 1
