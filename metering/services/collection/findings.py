"""Findings: what a person reads about single pods, in sentences, and how a window keeps them."""

import json
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from django.db import connection

from metering.domain.allocations.timeline import Interval
from metering.domain.catalogue.sizing import UnsizedCause
from metering.domain.catalogue.units import resource_of, sanitise
from metering.domain.collection.reconciliation import SourceAccount, SourceVerdict, WindowShare
from metering.domain.corrections.exceptions import (
    AUTO_RESOLUTION,
    WAITING_KINDS,
    ExceptionKind,
    Finding,
    pod_subject,
    unsized_kind,
    unsized_sentence,
)
from metering.protocols import NodeObservation
from metering.selectors.allocations.ledger import RefusedPod
from metering.selectors.allocations.rows import AllocationFact
from metering.services.collection.composed import FindingKey, LeasedHour, NodeUse
from metering.services.collection.pairing import Case

QUERY_DIGEST = "query_digest"
"""The detail that changes whenever the same facts are queried again."""
UNSEEN = "unseen"
"""How a source knows a pod that it did not observe."""

_KINDS = {
    SourceVerdict.DIFFERS: ExceptionKind.DIFFERS,
    SourceVerdict.KUBERNETES_ONLY: ExceptionKind.KUBERNETES_ONLY,
    SourceVerdict.PROMETHEUS_ONLY: ExceptionKind.PROMETHEUS_ONLY,
    SourceVerdict.RECOVERED: ExceptionKind.RECOVERED,
}
_SENTENCES = {
    SourceVerdict.DIFFERS: (
        "The Kubernetes API and Prometheus tell different times of {name}; the time that both "
        "tell is billed, {held} unit-seconds are held."
    ),
    SourceVerdict.KUBERNETES_ONLY: (
        "Prometheus never saw {name}, although it was scraping; it is billed as the Kubernetes "
        "API reported it."
    ),
    SourceVerdict.PROMETHEUS_ONLY: (
        "Only Prometheus saw {name}, although the watch was healthy; {held} unit-seconds are held."
    ),
    SourceVerdict.RECOVERED: "The watch was away; {name} is billed as Prometheus saw it.",
}


def unsized(case: Case, *, use: NodeUse, cause: UnsizedCause) -> Finding:
    """Return the finding of a pod whose hardware has no size; it holds the unit-seconds."""
    sentence = unsized_sentence(cause)
    return _held(
        case,
        use=use,
        kind=unsized_kind(cause),
        summary=f"{sentence} {case.name} holds {use.units} x {_raw(case)} on {case.node}.",
        cause=cause.value,
    )


def unbound(case: Case, *, use: NodeUse) -> Finding:
    """Return the finding of a pod in an unbound namespace; it holds the unit-seconds."""
    return _held(
        case,
        use=use,
        kind=ExceptionKind.UNBOUND_NAMESPACE,
        summary=f"Namespace {case.namespace} belongs to no project at that time.",
        cause="unbound_namespace",
    )


def held_hour(case: Case, *, use: NodeUse) -> Finding:
    """Return the finding of a pod in an hour that a person keeps off the bill."""
    return _held(
        case,
        use=use,
        kind=ExceptionKind.HELD_HOUR,
        summary=f"The hour was not seen well enough; what {case.name} held is not billed.",
        cause="held_hour",
    )


def _held(case: Case, *, use: NodeUse, kind: ExceptionKind, summary: str, cause: str) -> Finding:
    return Finding(
        kind=kind,
        subject=pod_subject(uid=case.uid, resource=case.resource),
        namespace=case.namespace,
        summary=summary,
        held_unit_seconds=use.unit_seconds,
        details={
            "cause": cause,
            "pod": case.name,
            "node": case.node,
            "resource": _raw(case),
            "units": use.units,
        },
    )


def _raw(case: Case) -> str:
    """Return Kubernetes' spelling where it is known, else the observed one."""
    known = resource_of(case.resource)
    if known is not None:
        return known.raw
    return case.row.fact.resource if case.row else case.resource


def invalid_request(case: Case) -> Finding:
    """Return the finding of a request that cannot be; nothing is known to be held."""
    units = case.requested_units
    asks = (
        f"asks for {units} x {_raw(case)}, which cannot be" if units > 0 else "asks for no number"
    )
    return Finding(
        kind=ExceptionKind.INVALID_REQUEST,
        subject=pod_subject(uid=case.uid, resource=case.resource),
        namespace=case.namespace,
        summary=" ".join([f"{case.name} {asks}.", *case.defects]),
        details={"pod": case.name, "node": case.node},
    )


def inconsistent_pod(case: Case, *, use: NodeUse | None, is_billed: bool = False) -> Finding:
    """Return the finding of a pod whose series contradict each other or report what cannot be.

    Args:
        case: The pod's resource.
        use: What it may have used by them, which is not billed; None when it is known otherwise.
        is_billed: Whether it is billed by what is known otherwise.
    """
    known = "It is metered without them." if is_billed else "Nothing of it is billed."
    if use is not None:
        known = "It may have used this much and is not billed."
    return Finding(
        kind=ExceptionKind.INCONSISTENT_METRICS,
        subject=pod_subject(uid=case.uid, resource=case.resource),
        namespace=case.namespace,
        summary=" ".join(
            [f"The metrics of {case.name} contradict themselves.", *case.defects, known]
        ),
        held_unit_seconds=use.unit_seconds if use else 0,
        details={"pod": case.name, "node": case.node, "resource": _raw(case)},
    )


def inconsistent_node(node: NodeObservation) -> Finding:
    """Return the finding of a node whose offer cannot be as it is reported."""
    return Finding(
        kind=ExceptionKind.INCONSISTENT_METRICS,
        subject=node.node,
        summary=" ".join([f"The metrics of node {node.node} cannot be.", *node.defects]),
        details={"node": node.node},
    )


def unbelievable(pod: RefusedPod) -> Finding:
    """Return the finding of a pod with invalid fields in the API."""
    requests = [f"{name} x {units}" for name, units in sorted(pod.requests.items())]
    asks = (
        f"asks for {', '.join(requests)}, which cannot be" if requests else "is not to be believed"
    )
    return Finding(
        kind=ExceptionKind.INVALID_REQUEST,
        subject=pod_subject(uid=pod.pod_uid, resource=""),
        namespace=pod.namespace,
        summary=" ".join([f"By the Kubernetes API {pod.pod_name} {asks}.", *pod.defects]),
        details={"pod": pod.pod_name, **pod.requests},
    )


def unproven_owner(pod: RefusedPod) -> Finding:
    """Return the finding of a pod whose owner annotation admission did not write."""
    return Finding(
        kind=ExceptionKind.UNPROVEN_OWNER,
        subject=pod_subject(uid=pod.pod_uid, resource=""),
        namespace=pod.namespace,
        summary=(
            f"{pod.pod_name} names {pod.unproven_owner} as its owner, but admission did not admit "
            f"it so; it belongs to the default owner of {pod.namespace}."
        ),
        details={"pod": pod.pod_name, "owner": pod.unproven_owner},
    )


def changed_request(case: Case, *, known: AllocationFact) -> Finding:
    """Return the finding of a request that differs from the ledger; the ledger is billed."""
    units = case.requested_units
    return Finding(
        kind=ExceptionKind.INVALID_REQUEST,
        subject=pod_subject(uid=case.uid, resource=case.resource),
        namespace=case.namespace,
        summary=(
            f"{case.name} asks for {units} x {known.resource}, but held {known.units} when it was "
            "first seen; that is what is billed."
        ),
        details={"pod": case.name, "units": units, "ledger_units": known.units},
    )


def uncertain_end(fact: AllocationFact, *, interval: Interval) -> Finding:
    """Return the finding of an end inside a hole; the lower bound is billed."""
    return _about_end(
        fact,
        interval=interval,
        summary=(
            f"{fact.pod_name} was gone after a hole in the scrapes; it is billed to its last "
            f"observation and may have ended up to {interval.slack_seconds} s later."
        ),
    )


def estimated_end(fact: AllocationFact, *, interval: Interval) -> Finding:
    """Return the finding of an end inside a hole, estimated near the last sample."""
    return _about_end(
        fact,
        interval=interval,
        summary=(
            f"{fact.pod_name} was not observed again after its last sample; it is billed to half a "
            f"scrape after that, {_text(interval.end_at)}, and may have ended up to "
            f"{interval.slack_seconds} s later."
        ),
    )


def _about_end(fact: AllocationFact, *, interval: Interval, summary: str) -> Finding:
    return Finding(
        kind=ExceptionKind.UNCERTAIN_END,
        subject=pod_subject(uid=fact.pod_uid, resource=sanitise(fact.resource)),
        namespace=fact.namespace,
        summary=summary,
        details={"pod": fact.pod_name, "slack_seconds": interval.slack_seconds},
    )


def sided(case: Case, *, share: WindowShare, digest: str) -> list[Finding]:
    """Return the finding of a pod about which two sources differ, with the evidence of both."""
    found = []
    held = share.units * share.held_seconds
    if share.verdict in _KINDS:
        kind = _KINDS[share.verdict]
        summary = _SENTENCES[share.verdict].format(name=case.name, held=held)
        found.append(_sided(case, kind=kind, summary=summary, held=held, digest=digest))
    if share.is_request_different:
        assert case.kubernetes is not None  # noqa: S101 - Both have a request; narrows the type.
        assert case.prometheus is not None  # noqa: S101 - As above.
        summary = (
            f"{case.name} asks for {case.kubernetes.units} by the Kubernetes API and for "
            f"{case.prometheus.units} by Prometheus; the API's is billed."
        )
        kind = ExceptionKind.REQUEST_DIFFERS
        found.append(_sided(case, kind=kind, summary=summary, held=0, digest=digest))
    return found


def _sided(case: Case, *, kind: ExceptionKind, summary: str, held: int, digest: str) -> Finding:
    return Finding(
        kind=kind,
        subject=pod_subject(uid=case.uid, resource=case.resource),
        namespace=case.namespace,
        summary=summary,
        held_unit_seconds=held,
        details={
            "pod": case.name,
            "node": case.node,
            "resource": _raw(case),
            **_evidence("kubernetes", case.kubernetes),
            **_evidence("prometheus", case.prometheus),
            QUERY_DIGEST: digest,
        },
    )


def _evidence(side: str, account: SourceAccount | None) -> dict[str, str | int]:
    if account is None:
        return {f"{side}_known_as": UNSEEN}
    life = account.life
    return {
        f"{side}_known_as": life.end_kind.value,
        f"{side}_begin_at": _text(life.begin_at),
        f"{side}_end_at": "" if life.end_at is None else _text(life.end_at),
        f"{side}_slack_seconds": life.slack_seconds,
        f"{side}_units": account.units,
    }


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


# An exception a person resolved stays resolved while the facts are the same; others open again, and
# so does a cause that blocks the window: otherwise it would be blocked without an open exception.
# The digest of the responses is not compared, because it changes with every query.
_UPSERT = """
INSERT INTO metering_meteringexception AS e (cluster_id, window_id, window_start, kind, subject,
  namespace, summary, remedy, held_unit_seconds, details, state, created_at, resolution)
SELECT %(cluster_id)s, %(window_id)s, %(start_at)s, f.kind, f.subject, f.namespace, f.summary,
       f.remedy, f.held_unit_seconds, f.details, 'open', %(at)s, ''
  FROM jsonb_to_recordset(%(findings)s) AS f(kind text, subject text, namespace text,
    summary text, remedy text, held_unit_seconds bigint, details jsonb)
ON CONFLICT (window_id, kind, subject) DO UPDATE
   SET namespace = EXCLUDED.namespace, summary = EXCLUDED.summary, remedy = EXCLUDED.remedy,
       held_unit_seconds = EXCLUDED.held_unit_seconds, details = EXCLUDED.details,
       state = 'open', resolved_at = NULL, resolved_by_id = NULL, resolution = ''
 WHERE EXCLUDED.kind = ANY(%(waiting)s)
    OR NOT (e.state = 'resolved' AND e.resolution <> %(auto)s
            AND e.details - 'query_digest' = EXCLUDED.details - 'query_digest'
            AND e.held_unit_seconds = EXCLUDED.held_unit_seconds)
"""


_RESOLVE_GONE = """
UPDATE metering_meteringexception
   SET state = 'resolved', resolved_at = %(at)s, resolution = %(auto)s
 WHERE window_id = %(window_id)s AND state = 'open'
   AND (%(kinds)s::text[] IS NULL OR kind = ANY(%(kinds)s))
   AND NOT (kind, subject) IN (SELECT * FROM jsonb_to_recordset(%(findings)s)
                                 AS f(kind text, subject text))
"""


def write_findings(
    claimed: LeasedHour,
    *,
    findings: Sequence[Finding],
    at: datetime,
    resolve_kinds: Collection[ExceptionKind] | None = None,
    besides: Sequence[FindingKey] = (),
) -> None:
    """Keep what a collection found about a window, and resolve what it no longer finds.

    Args:
        claimed: The window.
        findings: What is true of it now; one per kind and subject.
        at: When.
        resolve_kinds: Which kinds this collection could have found again; None for all.
        besides: What was found by parts of the window, and is kept already.
    """
    keep_findings(claimed, findings=findings, at=at)
    found = [*besides, *((finding.kind, finding.subject) for finding in findings)]
    with connection.cursor() as cursor:
        cursor.execute(
            _RESOLVE_GONE,
            {
                "window_id": claimed.id,
                "at": at,
                "auto": AUTO_RESOLUTION,
                "kinds": None if resolve_kinds is None else [kind.value for kind in resolve_kinds],
                "findings": json.dumps(
                    [{"kind": kind, "subject": subject} for kind, subject in found]
                ),
            },
        )


def keep_findings(claimed: LeasedHour, *, findings: Sequence[Finding], at: datetime) -> None:
    """Keep what was found about a window, and resolve nothing."""
    if not findings:
        return
    parameters: dict[str, Any] = {
        "cluster_id": claimed.cluster_id,
        "window_id": claimed.id,
        "start_at": claimed.start_at,
        "at": at,
        "auto": AUTO_RESOLUTION,
        "waiting": sorted(kind.value for kind in WAITING_KINDS),
        "findings": json.dumps([finding_values(finding) for finding in findings]),
    }
    with connection.cursor() as cursor:
        cursor.execute(_UPSERT, parameters)


def finding_values(finding: Finding) -> dict[str, object]:
    """Return a finding as the JSON an exception is written from."""
    return {
        "kind": finding.kind.value,
        "subject": finding.subject,
        "namespace": finding.namespace,
        "summary": finding.summary,
        "remedy": finding.remedy,
        "held_unit_seconds": finding.held_unit_seconds,
        "details": dict(finding.details),
    }
