"""Credits for broken hardware: proposed from sealed usage and device events, decided by people.

A proposal is no credit note: billing writes one from what is accepted, at the price of its hour.
"""

from datetime import datetime

from django.db import connection, transaction

from metering.domain.errors import CreditDecidedError, NoteMissingError
from metering.models import CreditProposal, CreditState
from tenants.domain.actors import Actor, ActorKind
from tenants.services.audit import record

# A failure without an end spoils what was bound before it, until the pod ends: what came later was
# placed on a device that somebody took for sound, and would fail with an event of its own. A pod
# is known to be on the device when the exporter said so; where it said nothing of device and pod,
# only the node is known, and the proposal says that it is not certain.
_PROPOSE = """
WITH touched AS (
  SELECT u.id, e.id AS event_id, e.begin_at AS event_begin, own.is_own,
         tstzrange(GREATEST(u.begin_at, e.begin_at), LEAST(u.end_at, e.end_at)) AS span
    FROM metering_usagerecord u
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
   WHERE u.window_id = %(window)s AND u.window_start = %(start)s AND u.revision = 0
     AND u.unit_seconds > 0
     AND (e.kind = 'health' OR COALESCE(a.begin_at, u.begin_at) <= e.begin_at)
     AND (own.is_own OR NOT (own.has_others OR own.is_taken))),
best AS (
  SELECT *, bool_or(is_own) OVER (PARTITION BY id) AS is_certain FROM touched),
merged AS (
  SELECT id, is_certain, range_agg(span) AS spans,
         (array_agg(event_id ORDER BY event_begin, event_id))[1] AS event_id
    FROM best WHERE is_own = is_certain GROUP BY id, is_certain),
summed AS (
  SELECT m.id, m.is_certain, m.event_id,
         (SELECT sum(floor(extract(epoch FROM upper(part) - lower(part))))::bigint
            FROM unnest(m.spans) AS part) AS seconds
    FROM merged m)
INSERT INTO metering_creditproposal AS p (event_id, window_id, window_start, usage_record,
  cluster_id, organization_id, project_id, owner, namespace, pod_name, pod_uid, resource, size,
  price_group, unit_seconds, is_certain, state, reason, created_at)
SELECT s.event_id, u.window_id, u.window_start, u.id, u.cluster_id, u.organization_id,
       u.project_id, u.owner, u.namespace, u.pod_name, u.pod_uid, u.resource, u.size,
       u.price_group, LEAST(u.unit_seconds, u.units * s.seconds), s.is_certain, 'proposed', '',
       %(at)s
  FROM summed s
  JOIN metering_usagerecord u ON u.id = s.id AND u.window_start = %(start)s
 WHERE s.seconds > 0
ON CONFLICT (usage_record) DO UPDATE
   SET event_id = EXCLUDED.event_id, unit_seconds = EXCLUDED.unit_seconds,
       is_certain = EXCLUDED.is_certain
 WHERE p.state = 'proposed'
"""


def propose_credits(*, window_id: int, start_at: datetime, at: datetime) -> int:
    """Propose to credit what failures spoiled of a sealed window's usage; return how many records.

    One statement, whatever the number of records and events. What is decided stays decided.
    """
    with connection.cursor() as cursor:
        cursor.execute(_PROPOSE, {"window": window_id, "start": start_at, "at": at})
        return int(cursor.rowcount)


def decide_credit(
    *, proposal_id: int, state: CreditState, reason: str, actor: Actor, at: datetime
) -> CreditProposal:
    """Accept or dismiss a proposal, with a reason.

    Raises:
        NoteMissingError: The reason is empty.
        CreditDecidedError: Somebody has decided already.
        ValueError: The decision is none.
    """
    if state is CreditState.PROPOSED:
        raise ValueError("A decision accepts or dismisses.")
    text = reason.strip()
    if not text:
        raise NoteMissingError("The decision has no reason.", field="reason")
    with transaction.atomic():
        changed = CreditProposal.objects.filter(pk=proposal_id, state=CreditState.PROPOSED).update(
            state=state, reason=text, decided_at=at, decided_by_id=_person_id(actor)
        )
        proposal = CreditProposal.objects.select_related("event").get(pk=proposal_id)
        if not changed:
            raise CreditDecidedError("The credit is decided already.")
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
                "reason": text,
            },
        )
    return proposal


def _person_id(actor: Actor) -> int | None:
    return int(actor.id) if actor.kind is ActorKind.PERSON else None
