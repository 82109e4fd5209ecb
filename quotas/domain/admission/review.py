"""Parse and validate the AdmissionReviews of pods and claims that an API server sends.

A body that is not an AdmissionReview is refused here, and the view answers with a 4xx. A review of
an unexpected object is parsed as far as possible; the check that finds the problem denies it.
Source: kubernetes/api, admission/v1/types.go.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Final

import msgspec

from quotas.domain.admission.pod_fields import (
    JSON,
    UNITS_MAX,
    PodInvalidError,
    mapping,
    objects,
    text,
)

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
REVIEW_BYTES_MAX: Final = 8 * 1024 * 1024
"""Two objects of at most 1.5 MiB, etcd's limit, as JSON, with a margin."""
_TEXT_MAX: Final = 253
_GROUPS_MAX: Final = 1_000


class NoReviewError(Exception):
    """Raised for a body that is not an AdmissionReview v1; the text says why."""


@dataclass(frozen=True)
class Requester:
    """The requester, as the API server authenticated them.

    Attributes:
        groups: Their groups; empty when the review has none.
    """

    username: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Review:
    """One write on its way in.

    Attributes:
        uid: Of this one question; the answer repeats it.
        group: API group of the object's kind; "" for the core.
        subresource: "" for the object itself.
        namespace: "" for what has none.
        obj: As it shall be; None for a deletion.
        old: As it was; None for a creation.
    """

    uid: str
    group: str
    kind: str
    resource: str
    subresource: str
    operation: str
    namespace: str
    name: str
    requester: Requester
    obj: JSON | None
    old: JSON | None
    is_dry_run: bool


def read_review(body: bytes) -> Review:
    """Return the question in the body of a request.

    Raises:
        NoReviewError: It is too large, no JSON, or no AdmissionReview of version 1.
    """
    if len(body) > REVIEW_BYTES_MAX:
        raise NoReviewError("The review is too large.")
    document = _decoded(body)
    if not isinstance(document, dict):
        raise NoReviewError("The review is no JSON object.")
    if document.get("apiVersion") != API_VERSION or document.get("kind") != KIND:
        raise NoReviewError(f"This is no {KIND} of {API_VERSION}.")
    return _review(_mapping(document.get("request"), "request"))


def _decoded(body: bytes) -> object:
    try:
        return _DECODER.decode(body)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise NoReviewError("The review is no JSON, or nested too deeply.") from error


_DECODER: Final = msgspec.json.Decoder(float_hook=Decimal)
"""A number with a point is kept exactly; NaN, Infinity and half of a character are no JSON."""


def _review(request: JSON) -> Review:
    kind = _mapping(request.get("kind"), "request.kind")
    resource = _mapping(request.get("resource"), "request.resource")
    dry_run = request.get("dryRun", False)
    if not isinstance(dry_run, bool):
        raise NoReviewError("request.dryRun is neither true nor false.")
    return Review(
        uid=_text(request.get("uid"), "request.uid", is_needed=True),
        group=_text(kind.get("group"), "request.kind.group"),
        kind=_text(kind.get("kind"), "request.kind.kind", is_needed=True),
        resource=_text(resource.get("resource"), "request.resource.resource", is_needed=True),
        subresource=_text(request.get("subResource"), "request.subResource"),
        operation=_text(request.get("operation"), "request.operation", is_needed=True),
        namespace=_text(request.get("namespace"), "request.namespace"),
        name=_text(request.get("name"), "request.name"),
        requester=_requester(_mapping(request.get("userInfo"), "request.userInfo")),
        obj=_object(request.get("object"), "request.object"),
        old=_object(request.get("oldObject"), "request.oldObject"),
        is_dry_run=dry_run,
    )


def _requester(user_info: JSON) -> Requester:
    groups = user_info.get("groups") or []
    if not isinstance(groups, list) or len(groups) > _GROUPS_MAX:
        raise NoReviewError("request.userInfo.groups is no list.")
    return Requester(
        username=_text(user_info.get("username"), "request.userInfo.username", limit=1_024),
        groups=tuple(_text(one, "request.userInfo.groups", limit=1_024) for one in groups),
    )


def _object(value: object, name: str) -> JSON | None:
    return None if value is None else _mapping(value, name)


def _mapping(value: object, name: str) -> JSON:
    if not isinstance(value, dict):
        raise NoReviewError(f"{name} is no object.")
    return value


def _text(value: object, name: str, *, is_needed: bool = False, limit: int = _TEXT_MAX) -> str:
    if value is None and not is_needed:
        return ""
    if not isinstance(value, str) or len(value) > limit or (is_needed and not value):
        raise NoReviewError(f"{name} is missing or no text.")
    if value and not value.isprintable():
        raise NoReviewError(f"{name} holds control characters.")
    return value


def answer_of(
    uid: str,
    *,
    is_allowed: bool,
    message: str = "",
    code: int = 403,
    warnings: tuple[str, ...] = (),
    annotations: Mapping[str, str] | None = None,
) -> JSON:
    """Return an AdmissionReview that answers a question.

    Args:
        uid: Of the question.
        is_allowed: Whether the write may go on.
        message: Why not; the client reads it verbatim.
        code: HTTP status the client gets for a refusal.
        warnings: For the client, shown beside the result.
        annotations: For the cluster's audit log.
    """
    response: JSON = {"uid": uid, "allowed": is_allowed}
    if not is_allowed:
        reason = "Forbidden" if code == 403 else "BadRequest"  # noqa: PLR2004 - HTTP's own.
        response["status"] = {"code": code, "reason": reason, "message": message}
    if warnings:
        response["warnings"] = list(warnings)
    if annotations:
        response["auditAnnotations"] = dict(annotations)
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}


ALL_DEVICES: Final = 32
"""What `allocationMode: All` counts as: the most devices one claim can get."""
FOR_EXTENDED_RESOURCE: Final = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of a claim that the scheduler made for what a pod requests as a resource."""


def claimed_classes(obj: JSON) -> Mapping[str, int]:
    """Return a claim's device classes, with the most devices it can get of each.

    A request with `adminAccess` only looks on, and is nothing here.

    Raises:
        PodInvalidError: No API server makes such a claim.
    """
    devices = mapping(mapping(obj.get("spec"), "spec").get("devices"), "spec.devices")
    classes: dict[str, int] = {}
    for request in objects(devices.get("requests"), "spec.devices.requests"):
        for name, count in _most(_alternatives(request)).items():
            classes[name] = classes.get(name, 0) + count
    return MappingProxyType(dict(sorted(classes.items())))


def is_for_extended_resource(obj: JSON) -> bool:
    """Whether a claim says that it was counted with its pod; only the scheduler can know.

    Raises:
        PodInvalidError: No API server makes such a claim.
    """
    metadata = mapping(obj.get("metadata"), "metadata")
    annotations = mapping(metadata.get("annotations"), "metadata.annotations")
    return annotations.get(FOR_EXTENDED_RESOURCE) == "true"


def _alternatives(request: JSON) -> Iterable[JSON]:
    """Return what may answer a request: one thing exactly, or the first of several."""
    if request.get("exactly") is not None:
        return [mapping(request["exactly"], "exactly")]
    if request.get("firstAvailable") is not None:
        return objects(request["firstAvailable"], "firstAvailable")
    # Before resource.k8s.io/v1beta2 the one thing stood in the request itself.
    return [request]


def _most(alternatives: Iterable[JSON]) -> dict[str, int]:
    most: dict[str, int] = {}
    for one in alternatives:
        name = text(one.get("deviceClassName"), "deviceClassName")
        if name and one.get("adminAccess") is not True:
            most[name] = max(most.get(name, 0), _count(one))
    return most


def _count(request: JSON) -> int:
    if request.get("allocationMode") == "All":
        return ALL_DEVICES
    count = request.get("count", 1)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= UNITS_MAX:
        raise PodInvalidError("The count of a device request is no number of devices.")
    return count
