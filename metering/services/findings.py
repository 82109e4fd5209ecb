"""Findings about single pods: what a window's composition tells a person, in sentences."""

from metering.domain.catalogue import UnsizedCause
from metering.domain.exceptions import (
    ExceptionKind,
    Finding,
    pod_subject,
    unsized_kind,
    unsized_sentence,
)
from metering.domain.resource_names import resource_of, sanitise
from metering.domain.timeline import Interval
from metering.protocols import PodObservation
from metering.selectors.allocations import AllocationFact
from metering.services.balancing import NodeUse


def unsized(pod: PodObservation, *, use: NodeUse, cause: UnsizedCause) -> Finding:
    """Return the finding of a pod whose hardware has no size; it holds the unit-seconds."""
    sentence = unsized_sentence(cause)
    return _held(
        pod,
        use=use,
        kind=unsized_kind(cause),
        summary=f"{sentence} {pod.name} holds {use.units} x {_raw(use.resource)} on {pod.node}.",
        cause=cause.value,
    )


def unbound(pod: PodObservation, *, use: NodeUse) -> Finding:
    """Return the finding of a pod in a namespace of nobody; it holds the unit-seconds."""
    return _held(
        pod,
        use=use,
        kind=ExceptionKind.UNBOUND_NAMESPACE,
        summary=f"Namespace {pod.namespace} belongs to no project at that time.",
        cause="unbound_namespace",
    )


def _held(
    pod: PodObservation, *, use: NodeUse, kind: ExceptionKind, summary: str, cause: str
) -> Finding:
    return Finding(
        kind=kind,
        subject=pod_subject(uid=pod.uid, resource=use.resource),
        namespace=pod.namespace,
        summary=summary,
        held_unit_seconds=use.unit_seconds,
        details={
            "cause": cause,
            "pod": pod.name,
            "node": pod.node,
            "resource": _raw(use.resource),
            "units": use.units,
        },
    )


def _raw(resource: str) -> str:
    """Return Kubernetes' spelling where it is known, else the one that was seen."""
    known = resource_of(resource)
    return known.raw if known else resource


def invalid_request(pod: PodObservation, *, resource: str, units: int) -> Finding:
    """Return the finding of a request that cannot be; nothing is known to be held."""
    return Finding(
        kind=ExceptionKind.INVALID_REQUEST,
        subject=pod_subject(uid=pod.uid, resource=resource),
        namespace=pod.namespace,
        summary=f"{pod.name} asks for {units} x {resource}, which cannot be.",
        details={"pod": pod.name, "node": pod.node},
    )


def changed_request(pod: PodObservation, *, known: AllocationFact, units: int) -> Finding:
    """Return the finding of a request that differs from the ledger; the ledger is billed."""
    return Finding(
        kind=ExceptionKind.INVALID_REQUEST,
        subject=pod_subject(uid=pod.uid, resource=sanitise(known.resource)),
        namespace=pod.namespace,
        summary=(
            f"{pod.name} asks for {units} x {known.resource}, but held {known.units} when it was "
            "first seen; that is what is billed."
        ),
        details={"pod": pod.name, "units": units, "ledger_units": known.units},
    )


def uncertain_end(fact: AllocationFact, *, interval: Interval) -> Finding:
    """Return the finding of an end inside a hole; the lower bound is billed."""
    return Finding(
        kind=ExceptionKind.UNCERTAIN_END,
        subject=pod_subject(uid=fact.pod_uid, resource=sanitise(fact.resource)),
        namespace=fact.namespace,
        summary=(
            f"{fact.pod_name} was gone after a hole in the scrapes; it is billed to its last "
            f"sight and may have ended up to {interval.slack_seconds} s later."
        ),
        details={"pod": fact.pod_name, "slack_seconds": interval.slack_seconds},
    )
