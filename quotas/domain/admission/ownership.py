"""Ownership: whose a pod is, by who asked for it and what it says of itself.

The API server knows who creates a Job, and nobody else does: its pods are created by a controller.
So the owner is written where a controller copies it from, into the template, at the moment the
person is known. What a person writes there of somebody else is overwritten, or refused.
"""

from dataclasses import dataclass
from typing import Final

from metering.domain.catalogue.names import sanitise
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
class Identity:
    """Who asks, in our own terms.

    Attributes:
        person: Our user name; "" when a machine or nobody we know asks.
        is_trusted: Whether it only carries on what somebody else asked for, as controllers do.
    """

    person: str
    is_trusted: bool


def identity_of(
    requester: Requester,
    *,
    prefix: str = "",
    trusted: frozenset[str] = frozenset(),
    made_by: tuple[str, str] | None = None,
) -> Identity:
    """Return who asks.

    Args:
        requester: As the API server authenticated them.
        prefix: What that server puts before a person's name; without it nobody is a person.
        trusted: User names of operators that carry on what others asked for.
        made_by: API group and kind of the object that controls what is asked about, None without
            one. What kube-system carries on was looked at only where that kind is stamped.
    """
    name = requester.username
    if name in trusted:
        return Identity(person="", is_trusted=True)
    if name.startswith(KUBE_SYSTEM) or name == CONTROLLER_MANAGER:
        return Identity(person="", is_trusted=made_by in KINDS)
    if name.startswith(SYSTEM) or not name.startswith(prefix):
        return Identity(person="", is_trusted=False)
    person = name.removeprefix(prefix)
    is_ours = len(person) <= PERSON_CHARACTERS_MAX
    return Identity(person=person if is_ours else "", is_trusted=False)


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


def is_forged(ask: PodAsk, identity: Identity) -> bool:
    """Whether a new pod names an owner that whoever asks may not name."""
    return bool(ask.owner) and not identity.is_trusted and ask.owner != identity.person


def owner_of(ask: PodAsk, identity: Identity) -> str:
    """Return whose a new pod is; "" when nobody is known. Ask `is_forged` before."""
    return ask.owner or identity.person


def owner_label(obj: JSON) -> str:
    """Return the owner in the annotations of a pod or of a template, as far as it is text."""
    metadata = mapping(obj.get("metadata"), "metadata")
    annotations = mapping(metadata.get("annotations"), "metadata.annotations")
    told = annotations.get(OWNER_ANNOTATION, "")
    return told if isinstance(told, str) else ""


def labelled_owner(obj: JSON, label: str) -> str:
    """Return whom the label of a cluster names, as the watch of its pods reads it.

    Args:
        obj: A pod.
        label: As Kubernetes or as Prometheus spells it; "" for none.

    Raises:
        PodInvalidError: It is no pod.
    """
    metadata = mapping(obj.get("metadata"), "metadata")
    labels = texts(metadata.get("labels"), "metadata.labels")
    if not label or label in labels:
        return labels.get(label, "")
    wanted = sanitise(label)
    return next((value for key, value in labels.items() if sanitise(key) == wanted), "")


def new_owner(template: JSON, old: JSON | None, identity: Identity) -> str:
    """Return whose the pods of a template shall be; "" for the namespace's default owner.

    Whoever last changed what runs owns it; a change beside the template, such as of the number of
    pods, leaves the owner as it was. A machine that is not trusted names nobody, and so cannot
    take an owner away either.
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
        owner: Whose it shall be; "" takes the annotation away.
    """
    told = owner_label(pod)
    metadata = mapping(pod.get("metadata"), "metadata")
    has_any = OWNER_ANNOTATION in mapping(metadata.get("annotations"), "metadata.annotations")
    if told == owner and has_any == bool(owner):
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
    """Return what stood where a template stands; None where nothing did."""
    return next((old.pod for old in olds if old.path == template.path), None)
