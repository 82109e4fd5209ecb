"""Credits for broken hardware: proposed from sealed usage and device events, decided by people.

Billing puts what is accepted on the next document, at the price of its hour.
"""

from datetime import datetime
from typing import Any

from django.db import connection, transaction

from metering.domain.errors import (
    CreditDecidedError,
    CreditStaleError,
    CreditWithdrawnError,
    required_note,
)
from metering.models import CreditProposal, CreditState, MeteringWindow
from metering.selectors.collection.usage import NET_USAGE
from metering.selectors.efficiency import has_news
from tenants.domain.actors import Actor
from tenants.services.audit import record

_GONE = """
gone AS (
  SELECT q.id, q.unit_seconds - LEAST(q.unit_seconds, COALESCE(net.net_unit_seconds, 0))::bigint
           AS unit_seconds
    FROM metering_creditproposal q LEFT JOIN net ON net.record_id = q.usage_record
   WHERE q.window_id = %(window)s AND q.state = 'accepted')"""
_RETRACTED = """
  UPDATE metering_creditproposal p SET retracted_unit_seconds = gone.unit_seconds
    FROM gone WHERE gone.id = p.id AND p.retracted_unit_seconds <> gone.unit_seconds"""
# A failure without an end affects pods bound before it, until the pod ends: later pods were bound
# to a device considered healthy, and a failure there would have its own event. A pod is on the
# device when the exporter reported so; where the exporter did not report device and pod, only the
# node is known, and the proposal is marked uncertain.
_PROPOSE = f"""{NET_USAGE},
touched AS (
  SELECT u.record_id, e.id AS event_id, e.begin_at AS event_begin, own.is_own,
         tstzrange(GREATEST(u.begin_at, e.begin_at), LEAST(u.end_at, e.end_at)) AS span
    FROM net u
    JOIN metering_deviceevent e ON e.cluster_id = u.cluster_id AND e.node = u.node
     AND e.severity = 'fail' AND e.begin_at < u.end_at
     AND (e.end_at IS NULL OR e.end_at > u.begin_at)
    LEFT JOIN metering_podallocation a ON a.cluster_id = u.cluster_id
     AND a.pod_uid = u.pod_uid AND a.resource = u.resource
   CROSS JOIN LATERAL (
     SELECT COALESCE(bool_or(d.uuid = e.uuid AND d.pod_uid = u.pod_uid
              AND (e.instance_id = '' OR d.instance_id = e.instance_id)), false) AS is_own,
            COALESCE(bool_or(d.pod_uid = u.pod_uid), false) AS has_others,
            COALESCE(bool_or(d.uuid = e.uuid), false) AS is_taken
       FROM metering_deviceusage d
      WHERE d.window_id = u.window_id AND d.window_start = u.window_start
        AND d.node = u.node AND d.attribution = 'exclusive'
        AND (d.pod_uid = u.pod_uid OR d.uuid = e.uuid)) own
   WHERE (e.kind = 'health' OR COALESCE(a.begin_at, u.begin_at) <= e.begin_at)
     AND (own.is_own OR NOT (own.has_others OR own.is_taken))),
best AS (
  SELECT *, bool_or(is_own) OVER (PARTITION BY record_id) AS is_certain FROM touched),
merged AS (
  SELECT record_id, is_certain, range_agg(span) AS spans,
         (array_agg(event_id ORDER BY event_begin, event_id))[1] AS event_id
    FROM best WHERE is_own = is_certain GROUP BY record_id, is_certain),
summed AS (
  SELECT m.record_id, m.is_certain, m.event_id,
         (SELECT sum(floor(extract(epoch FROM upper(part) - lower(part))))::bigint
            FROM unnest(m.spans) AS part) AS seconds
    FROM merged m),
due AS MATERIALIZED (
  SELECT u.*, s.event_id, s.is_certain,
         LEAST(u.net_unit_seconds, u.units * s.seconds)::bigint AS spoiled
    FROM summed s JOIN net u USING (record_id)
   WHERE s.seconds > 0),
withdrawn AS (
  UPDATE metering_creditproposal p
     SET state = 'withdrawn', unit_seconds = 0, reason = %(withdrawn)s
   WHERE p.window_id = %(window)s AND p.state = 'proposed'
     AND NOT EXISTS (SELECT FROM due WHERE due.record_id = p.usage_record)),
{_GONE.strip()},
retracted AS ({_RETRACTED.strip()})
INSERT INTO metering_creditproposal AS p (event_id, window_id, window_start, usage_record,
  cluster_id, organization_id, project_id, owner, namespace, pod_name, pod_uid, resource, size,
  price_group, unit_seconds, is_certain, state, reason, created_at)
SELECT event_id, window_id, window_start, record_id, cluster_id, organization_id, project_id,
       owner, namespace, pod_name, pod_uid, resource, size, price_group, spoiled, is_certain,
       'proposed', '', %(at)s
  FROM due
ON CONFLICT (usage_record) DO UPDATE
   SET event_id = EXCLUDED.event_id, unit_seconds = EXCLUDED.unit_seconds,
       is_certain = EXCLUDED.is_certain, state = 'proposed', reason = ''
 WHERE p.state IN ('proposed', 'withdrawn')
"""  # noqa: S608 - The statement is put together from constants only.
_RETRACT = f"{NET_USAGE}, {_GONE.strip()} {_RETRACTED.strip()}"
WITHDRAWN = "Corrections took back the usage that would have been credited."


def propose_credits(*, window_id: int, start_at: datetime, at: datetime) -> int:
    """Propose credits for usage of a sealed window lost to failures; return how many records.

    Usage is the sum over its revisions. When corrections reduce the usage, the proposal shrinks; at
    zero it is withdrawn, and it returns if usage does. A decided proposal stays decided; an
    accepted one records how much of it was taken back since. One statement, whatever the number of
    records and events.
    """
    given: dict[str, Any] = {
        "window": window_id,
        "start": start_at,
        "at": at,
        "withdrawn": WITHDRAWN,
    }
    with connection.cursor() as cursor:
        cursor.execute(_PROPOSE, given)
        return int(cursor.rowcount)


def retract_credits(*, window_id: int, start_at: datetime) -> None:
    """Record how much of accepted credits corrections took back; propose none.

    For an hour whose device rows are archived: without them each pod of a node would seem to be
    touched by each failure there.
    """
    with connection.cursor() as cursor:
        cursor.execute(_RETRACT, {"window": window_id, "start": start_at})


def decide_credit(
    *, proposal_id: int, state: CreditState, reason: str, actor: Actor, at: datetime
) -> CreditProposal:
    """Accept or dismiss a proposal, with a reason.

    Raises:
        NoteMissingError: The reason is empty.
        CreditDecidedError: It is decided already.
        CreditWithdrawnError: Corrections took all of it back.
        CreditStaleError: The hour was corrected, and the proposal is not updated yet.
        ValueError: The decision is not valid.
    """
    if state not in {CreditState.ACCEPTED, CreditState.DISMISSED}:
        raise ValueError("A decision accepts or dismisses.")
    text = required_note(reason, field="reason")
    with transaction.atomic():
        proposal = _lock_pending(proposal_id)
        if state is CreditState.ACCEPTED and has_news(proposal.window_id):
            raise CreditStaleError("The hour was corrected since the credit was proposed.")
        proposal.state, proposal.reason = state, text
        proposal.decided_at, proposal.decided_by_id = at, actor.person_id
        proposal.save(update_fields=["state", "reason", "decided_at", "decided_by"])
        record(
            actor=actor,
            at=at,
            action=f"metering:credit:{'accept' if state is CreditState.ACCEPTED else 'dismiss'}",
            object_kind="credit_proposal",
            object_id=proposal_id,
            organization_id=proposal.organization_id,
            facts={
                "unit_seconds": proposal.unit_seconds,
                "is_certain": proposal.is_certain,
                "event": proposal.event_id,
                "project": str(proposal.project_id),
                "size": proposal.size,
                "price_group": proposal.price_group,
                "hour": proposal.window_start.isoformat(),
                "is_credited_by_hand": proposal.is_credited_by_hand,
                "reason": text,
            },
        )
    return proposal


def _lock_pending(proposal_id: int) -> CreditProposal:
    """Return an undecided proposal, locked so that no correction of its hour is posted meanwhile.

    Raises:
        CreditDecidedError: It is decided already.
        CreditWithdrawnError: Corrections took all of it back.
    """
    rows = CreditProposal.objects.filter(pk=proposal_id)
    MeteringWindow.objects.select_for_update().get(pk=rows.values("window_id")[:1])
    proposal = rows.select_for_update(of=["self"]).select_related("event").get()
    if proposal.state == CreditState.WITHDRAWN:
        raise CreditWithdrawnError("Corrections took back what would have been credited.")
    if proposal.state != CreditState.PROPOSED:
        raise CreditDecidedError("The credit is decided already.")
    return proposal
