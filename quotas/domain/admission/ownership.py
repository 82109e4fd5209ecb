"""Ownership: which user owns a pod, by its requester and its labels.

Only the API server knows which user creates a Job: its pods are created by a controller. So the
owner is written into the pod template, from which the controller copies it, when the user's request
is admitted. Another user's name there is overwritten or refused.
"""

from dataclasses import dataclass
from typing import Final

from metering.domain.catalogue.units import sanitise
from quotas.domain.admission.pod_fields import JSON, mapping, objects, texts
from quotas.domain.admission.pods import OWNER_ANNOTATION, PodAsk
from quotas.domain.admission.review import Requester
from quotas.domain.admission.workload_templates import KINDS, Template

SYSTEM: Final = "system:"
SERVICE_ACCOUNT: Final = "system:serviceaccount:"
KUBE_SYSTEM: Final = "system:serviceaccount:kube-system:"
CONTROLLER_MANAGER: Final = "system:kube-controller-manager"
SCHEDULER: Final = "system:kube-scheduler"
PERSON_CHARACTERS_MAX: Final = 150
Operation = dict[str, object]


@dataclass(frozen=True)
class KnownRequester:
    """The requester as this service knows them.

    Attributes:
        person: User name in this service; "" for a machine or an unknown user.
        is_trusted: Whether it acts on requests of others, as controllers do.
    """

    person: str
    is_trusted: bool


def identity_of(
    requester: Requester,
    *,
    prefix: str = "",
    trusted: frozenset[str] = frozenset(),
    made_by: tuple[str, str] | None = None,
) -> KnownRequester:
    """Return the requester.

    Args:
        requester: As the API server authenticated them.
        prefix: Prefix of that server for users' names; a name without it is not a user's.
        trusted: User names of operators that act on requests of others.
        made_by: API group and kind of the owner reference with controller=true; None without one.
            Objects that kube-system creates were checked before only where that kind gets an owner
            label.
    """
    name = requester.username
    if name in trusted:
        return KnownRequester(person="", is_trusted=True)
    if is_of_kube_system(requester):
        return KnownRequester(person="", is_trusted=made_by in KINDS)
    if name.startswith(SYSTEM) or not name.startswith(prefix):
        return KnownRequester(person="", is_trusted=False)
    person = name.removeprefix(prefix)
    is_ours = len(person) <= PERSON_CHARACTERS_MAX
    return KnownRequester(person=person if is_ours else "", is_trusted=False)


def is_of_kube_system(requester: Requester) -> bool:
    """Whether a controller of the control plane makes the request."""
    name = requester.username
    return name.startswith(KUBE_SYSTEM) or name == CONTROLLER_MANAGER


def controlling_kind(obj: JSON) -> tuple[str, str] | None:
    """Return the API group and kind of the object that controls another, None without one.

    Raises:
        PodInvalidError: It is no object of an API server.
    """
    metadata = mapping(obj.get("metadata"), "metadata")
    for owner in objects(metadata.get("ownerReferences"), "metadata.ownerReferences"):
        if owner.get("controller") is True:
            group = str(owner.get("apiVersion", "")).rpartition("/")[0]
            return group, str(owner.get("kind", ""))
    return None


def is_forged(ask: PodAsk, identity: KnownRequester) -> bool:
    """Whether a new pod names an owner that the requester may not name."""
    return bool(ask.owner) and not identity.is_trusted and ask.owner != identity.person


def owner_of(ask: PodAsk, identity: KnownRequester) -> str:
    """Return the owner of a new pod; "" when unknown. Call `is_forged` first."""
    return ask.owner or identity.person


def owner_label(obj: JSON) -> str:
    """Return the owner in the annotations of a pod or of a template, as far as it is text."""
    metadata = mapping(obj.get("metadata"), "metadata")
    annotations = mapping(metadata.get("annotations"), "metadata.annotations")
    annotation = annotations.get(OWNER_ANNOTATION, "")
    return annotation if isinstance(annotation, str) else ""


def labelled_owner(obj: JSON, label: str) -> str:
    """Return the user named by a pod's owner label, as the watch reads it.

    Args:
        obj: A pod.
        label: As Kubernetes or as Prometheus spells it; "" for none.

    Raises:
        PodInvalidError: The object is not a pod.
    """
    metadata = mapping(obj.get("metadata"), "metadata")
    labels = texts(metadata.get("labels"), "metadata.labels")
    if not label or label in labels:
        return labels.get(label, "")
    wanted = sanitise(label)
    return next((value for key, value in labels.items() if sanitise(key) == wanted), "")


def new_owner(template: JSON, old: JSON | None, identity: KnownRequester) -> str:
    """Return the owner for the pods of a template; "" for the namespace's default owner.

    The user who last changed the template owns it; a change outside the template, such as of the
    number of replicas, keeps the owner. A machine that is not trusted can neither set nor remove an
    owner.
    """
    if identity.is_trusted:
        return owner_label(template)
    if old is None:
        return identity.person
    if identity.person and _work(template) != _work(old):
        return identity.person
    return owner_label(old)


def _work(template: JSON) -> JSON:
    """Return a template without its owner."""
    metadata = mapping(template.get("metadata"), "metadata")
    annotations = {
        key: value
        for key, value in mapping(metadata.get("annotations"), "metadata.annotations").items()
        if key != OWNER_ANNOTATION
    }
    kept = {key: value for key, value in metadata.items() if key != "annotations"}
    return {**template, "metadata": {**kept, "annotations": annotations}}


def stamp(path: tuple[str, ...], pod: JSON, owner: str) -> list[Operation]:
    """Return the JSON patch that makes a pod or a template say its owner; empty when it does.

    Args:
        path: Where it is in the object; empty for the object itself.
        pod: What is there.
        owner: The new owner; "" removes the annotation.
    """
    label = owner_label(pod)
    metadata = mapping(pod.get("metadata"), "metadata")
    has_any = OWNER_ANNOTATION in mapping(metadata.get("annotations"), "metadata.annotations")
    if label == owner and has_any == bool(owner):
        return []
    annotation = _pointer((*path, "metadata", "annotations", OWNER_ANNOTATION))
    if not owner:
        return [{"op": "remove", "path": annotation}]
    if metadata.get("annotations"):
        return [{"op": "add", "path": annotation, "value": owner}]
    stamped = {OWNER_ANNOTATION: owner}
    if pod.get("metadata"):
        place = _pointer((*path, "metadata", "annotations"))
        return [{"op": "add", "path": place, "value": stamped}]
    place = _pointer((*path, "metadata"))
    return [{"op": "add", "path": place, "value": {"annotations": stamped}}]


def _pointer(parts: tuple[str, ...]) -> str:
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def old_template(template: Template, olds: tuple[Template, ...]) -> JSON | None:
    """Return the old value at a template's path; None without one."""
    return next((old.pod for old in olds if old.path == template.path), None)
