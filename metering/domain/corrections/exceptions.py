"""Exceptions: what could not be attributed, sized or trusted, and what it holds back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from metering.domain.catalogue.sizing import UnsizedCause
from metering.domain.figures import unit_hours_text


class ExceptionKind(StrEnum):
    """Causes that need review."""

    UNKNOWN_DEVICE = "unknown_device"
    UNBOUND_NAMESPACE = "unbound_namespace"
    UNKNOWN_NODE = "unknown_node"
    INVALID_REQUEST = "invalid_request"
    INCONSISTENT_METRICS = "inconsistent_metrics"
    UNCERTAIN_END = "uncertain_end"
    OVER_CAPACITY = "over_capacity"
    LOW_COVERAGE = "low_coverage"
    SOURCE_UNAVAILABLE = "source_unavailable"
    QUARANTINED = "quarantined"
    OVERDUE = "overdue"
    DIFFERS = "differs"
    KUBERNETES_ONLY = "kubernetes_only"
    PROMETHEUS_ONLY = "prometheus_only"
    REQUEST_DIFFERS = "request_differs"
    RECOVERED = "recovered"
    SINGLE_SOURCE = "single_source"
    HELD_HOUR = "held_hour"
    DEVICES_UNAVAILABLE = "devices_unavailable"
    UNPROVEN_OWNER = "unproven_owner"


SUBJECT_MAX: Final = 320
"""Characters of a subject; a node's name and a resource's may be longer together."""
BLOCKING_KINDS: Final = frozenset(
    {
        ExceptionKind.OVER_CAPACITY,
        ExceptionKind.LOW_COVERAGE,
        ExceptionKind.SOURCE_UNAVAILABLE,
        ExceptionKind.QUARANTINED,
        ExceptionKind.OVERDUE,
    }
)
"""Causes that concern the whole window and prevent its seal while open.

A cause about a single pod does not: its unit-seconds stay held in the exception, and one tenant's
unbound namespace must not stop the invoices of the others.
"""

WAITING_KINDS: Final = BLOCKING_KINDS - {ExceptionKind.OVER_CAPACITY}
"""Causes for which nothing was metered, so that the window itself needs a decision or a source.

To resolve such an exception alone would leave the window waiting without one.
"""

SIDED_KINDS: Final = frozenset(
    {
        ExceptionKind.DIFFERS,
        ExceptionKind.KUBERNETES_ONLY,
        ExceptionKind.PROMETHEUS_ONLY,
        ExceptionKind.REQUEST_DIFFERS,
        ExceptionKind.RECOVERED,
    }
)
"""Causes about which a person may accept the evidence of one source."""

DEVICE_KINDS: Final = (ExceptionKind.UNKNOWN_DEVICE,)
"""Causes that are about a device: alike are those of one resource."""

NODE_KINDS: Final = (ExceptionKind.UNKNOWN_NODE, ExceptionKind.OVER_CAPACITY)
"""Causes that are about a node: alike are those of one node."""

REMEDIES: Final[Mapping[ExceptionKind, str]] = {
    ExceptionKind.UNKNOWN_DEVICE: (
        "Check the node's GPU labels and sharing settings, and add a catalogue version if the "
        "device is new. Unsealed hours are then billed, and sealed ones are rechecked and "
        "corrected."
    ),
    ExceptionKind.UNBOUND_NAMESPACE: (
        "Bind the namespace to a project from this hour on. Unsealed hours are then billed, and "
        "sealed ones are rechecked and corrected."
    ),
    ExceptionKind.UNKNOWN_NODE: (
        "Let kube-state-metrics export the node's allocatable devices and GPU labels "
        "(--metric-labels-allowlist=nodes=[nvidia.com/gpu.product,...]). Unsealed hours are then "
        "billed; sealed ones when they are rechecked."
    ),
    ExceptionKind.INVALID_REQUEST: (
        "Check the pod's specification; a request for a GPU is a whole number and never changes."
    ),
    ExceptionKind.INCONSISTENT_METRICS: (
        "Compare the series about it: several exporters, or copies of Prometheus, may report "
        "different objects under one name. Unsealed hours are billed once the series agree, and "
        "sealed ones when they are rechecked; correct by hand what they no longer show."
    ),
    ExceptionKind.UNCERTAIN_END: (
        "No action is needed; find the pod's true end if the tenant disputes the bill."
    ),
    ExceptionKind.OVER_CAPACITY: (
        "Compare the node's pods with its allocatable devices. Resolve this to accept the usage "
        "as metered, or meter the window again once the cause is gone."
    ),
    ExceptionKind.LOW_COVERAGE: (
        "Accept what was observed, or waive the hour, if no more data is to come."
    ),
    ExceptionKind.SOURCE_UNAVAILABLE: (
        "Check the cluster's Prometheus; metering continues when it answers. If it never "
        "will, decide on the hour once it is a day old, or set the hour until which the cluster is "
        "metered."
    ),
    ExceptionKind.QUARANTINED: (
        "Find the workers' errors in the log, then meter the window again; waive the hour if "
        "it can never be metered."
    ),
    ExceptionKind.OVERDUE: (
        "Check the workers and their log. If the hour can never be metered, decide on it, or set "
        "the hour until which the cluster is metered."
    ),
    ExceptionKind.DIFFERS: (
        "Compare both sources' times in the details and accept the evidence of one. Until then "
        "only the time that both report is billed."
    ),
    ExceptionKind.KUBERNETES_ONLY: (
        "It is billed as the Kubernetes API reported it. Find out why Prometheus did not report "
        "the pod; accept Prometheus' evidence to bill nothing."
    ),
    ExceptionKind.PROMETHEUS_ONLY: (
        "Nothing is billed for it. Accept Prometheus' evidence to bill what it reported, or the "
        "Kubernetes API's if the pod held nothing."
    ),
    ExceptionKind.REQUEST_DIFFERS: (
        "The Kubernetes API's request is billed, because it is exact. Check the metrics of "
        "kube-state-metrics; a pod's request never changes."
    ),
    ExceptionKind.RECOVERED: (
        "No action is needed: it is billed as Prometheus reported it, because the watch was down. "
        "Accept the Kubernetes API's evidence to bill only what the watch reported."
    ),
    ExceptionKind.SINGLE_SOURCE: (
        "No action is needed; find out why the other source was down, since only one source "
        "reported this hour."
    ),
    ExceptionKind.HELD_HOUR: (
        "Once the hour's evidence is back, meter it again, or recheck it if it is sealed: "
        "what is known then is billed. Or resolve this with a reason to leave it off the bill."
    ),
    ExceptionKind.DEVICES_UNAVAILABLE: (
        "Nothing billed is affected. The hour has no activity, energy or device events, and no "
        "waste or credit follows from it; resolve this once you have read it."
    ),
    ExceptionKind.UNPROVEN_OWNER: (
        "Find out why admission was not asked when the pod was created. The default owner of its "
        "namespace is billed; correct the usage if the named owner confirms that it is theirs."
    ),
}

UNKNOWN_RESOURCE_REMEDY: Final = (
    "No catalogue rule can give this resource a size. Have the pods ask for whole GPUs, shares of "
    "them or MIG instances; resolve what was held, with a reason, to leave it unbilled."
)
"""A percentage of a GPU's memory, say, is no part of a device that has a price."""

MISSED_CLAIMS: Final = "device_claims"
"""The detail of an hour's finding that only the watch, which is silent, could report its claims."""

AUTO_RESOLUTION: Final = "No longer so when the window was metered again."
BILLED_RESOLUTION: Final = "Billed by usage correction"

WAITING_SENTENCE: Final = "The hour was not metered."
QUARANTINED_SENTENCE: Final = "No worker that claimed this window ever reported back."

UNSIZED_SENTENCES: Final[Mapping[UnsizedCause, str]] = {
    UnsizedCause.UNKNOWN_RESOURCE: "No rule knows the resource.",
    UnsizedCause.NO_LABELS: "The node had no GPU product label.",
    UnsizedCause.MIXED_MODELS: "The node has GPUs of several models, and its labels name one.",
    UnsizedCause.MIG_INVALID: "The node's MIG devices are not uniform (MIG-INVALID).",
    UnsizedCause.NO_REPLICAS: "The node reports 0 replicas: MIG is on, but its strategy is none.",
    UnsizedCause.SHARE_UNKNOWN: "The device is shared, but the node reports no number of shares.",
    UnsizedCause.UNKNOWN_MODEL: "The GPU model is not known to have MIG.",
    UnsizedCause.UNKNOWN_PROFILE: "The GPU model does not have this MIG profile.",
    UnsizedCause.UNMAPPED: "No catalogue rule gives it a size.",
}


@dataclass(frozen=True)
class Finding:
    """One cause in one window about one subject; see models.MeteringException.

    Attributes:
        subject: A pod's uid and resource, a node and resource, or "" for the window as a whole.
        held_unit_seconds: Units x seconds observed but not billed.
        details: JSON values that help to find the cause.
    """

    kind: ExceptionKind
    subject: str
    summary: str
    namespace: str = ""
    held_unit_seconds: int = 0
    details: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def remedy(self) -> str:
        """Return what a person can do about it."""
        return remedy_of(self.kind, cause=self.details.get("cause"))


def remedy_of(kind: ExceptionKind, *, cause: object) -> str:
    """Return what a person can do about a kind, or about its cause where that takes more.

    Args:
        kind: The kind.
        cause: The cause in the details; None without one.
    """
    return UNKNOWN_RESOURCE_REMEDY if cause == UnsizedCause.UNKNOWN_RESOURCE else REMEDIES[kind]


def pod_subject(*, uid: str, resource: str) -> str:
    """Return the subject of a finding about one pod's one resource."""
    return f"{uid} {resource}"


def node_subject(*, node: str, resource: str) -> str:
    """Return the subject of a finding about one node's one resource."""
    return f"{node} {resource}"[:SUBJECT_MAX]


def is_machines_resolution(resolution: str) -> bool:
    """Whether an exception was resolved by new data, and not by a person."""
    return resolution == AUTO_RESOLUTION or resolution.startswith(f"{BILLED_RESOLUTION} ")


def unsized_kind(cause: UnsizedCause) -> ExceptionKind:
    """Return which exception an unsized resource becomes."""
    if cause is UnsizedCause.NO_LABELS:
        return ExceptionKind.UNKNOWN_NODE
    return ExceptionKind.UNKNOWN_DEVICE


def unsized_sentence(cause: UnsizedCause) -> str:
    """Return why a resource has no size."""
    return UNSIZED_SENTENCES[cause]


NOTHING_HELD: Final = "nothing"


def held_text(held_unit_seconds: int, *, details: Mapping[str, Any]) -> str:
    """Return what one exception holds, such as "12.50 unit-hours".

    A resource without a rule has its own units: 50 of a percentage for an hour are not 50 hours of
    a GPU. It is shown as requested.

    Args:
        held_unit_seconds: Units x seconds that are not billed.
        details: The exception's; cause and units are read.
    """
    if not held_unit_seconds:
        return NOTHING_HELD
    units = details.get("units")
    if details.get("cause") != UnsizedCause.UNKNOWN_RESOURCE or not isinstance(units, int):
        return f"{unit_hours_text(held_unit_seconds)} unit-hours"
    hours = unit_hours_text(held_unit_seconds // max(units, 1))
    return f"{units:,} for {hours} h, not in GPUs"


def held_part_text(*, size: str, unit_seconds: int) -> str:
    """Return what many alike exceptions hold of one size, such as "Large 12.50".

    Args:
        size: small, medium, large; "" while no rule gives one.
        unit_seconds: Units x seconds that are not billed.
    """
    return f"{size.capitalize() or 'Size unknown'} {unit_hours_text(unit_seconds)}"


def held_pods_text(pod_seconds: int) -> str:
    """Return for how long pods held what is no GPU, such as "1,244.96 h of pods, not in GPUs"."""
    return f"{unit_hours_text(pod_seconds)} h of pods, not in GPUs"
