"""Waste findings: opened, continued and closed by sealed windows, dismissed by people."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from metering.domain.catalogue.sizing import Catalogue
from metering.domain.efficiency.rules import WasteRule, WasteThresholds
from metering.domain.efficiency.waste import (
    WasteVerdict,
    judge,
    rules_asked,
    waits_for_its_day,
    waste_account,
)
from metering.domain.errors import FindingNotOpenError, required_note
from metering.models import WasteFinding, WasteState
from metering.selectors.collection.plans import prefer_hash_joins
from metering.selectors.efficiency import (
    HeldAllocation,
    HolderKey,
    JudgedWindow,
    StandingFinding,
    held_since,
    holders_at_end,
    spells_before_end,
    standing_findings,
)
from tenants.domain.actors import Actor
from tenants.services.audit import record

_CLOSE = """
UPDATE metering_wastefinding SET state = 'closed'
 WHERE cluster_id = %(cluster)s AND state = 'open' AND NOT id = ANY(%(goes_on)s)
"""
_WRITE = """
INSERT INTO metering_wastefinding AS f (cluster_id, organization_id, project_id, owner, namespace,
  pod_name, pod_uid, resource, rule, from_at, until_at, units, size, price_group, suggested_units,
  suggested_size, suggested_price_group, held_unit_seconds, suggested_unit_seconds,
  wasted_unit_seconds, activity_ratio, memory_peak_mebibytes, state, reason, created_at)
SELECT %(cluster)s, r.*, 'open', '', %(at)s
  FROM jsonb_to_recordset(%(rows)s) AS r(organization_id uuid, project_id uuid, owner text,
    namespace text, pod_name text, pod_uid text, resource text, rule text, from_at timestamptz,
    until_at timestamptz, units integer, size text, price_group text, suggested_units integer,
    suggested_size text, suggested_price_group text, held_unit_seconds bigint,
    suggested_unit_seconds bigint, wasted_unit_seconds bigint, activity_ratio numeric,
    memory_peak_mebibytes bigint)
ON CONFLICT (cluster_id, pod_uid, resource, rule, from_at) DO UPDATE
   SET until_at = EXCLUDED.until_at, suggested_units = EXCLUDED.suggested_units,
       suggested_size = EXCLUDED.suggested_size,
       suggested_price_group = EXCLUDED.suggested_price_group,
       held_unit_seconds = EXCLUDED.held_unit_seconds,
       suggested_unit_seconds = EXCLUDED.suggested_unit_seconds,
       wasted_unit_seconds = EXCLUDED.wasted_unit_seconds,
       activity_ratio = EXCLUDED.activity_ratio,
       memory_peak_mebibytes = EXCLUDED.memory_peak_mebibytes
 WHERE f.state = 'open'
"""


@dataclass(frozen=True)
class _Accusation:
    """A verdict about a holder, and the finding it continues, or the time it begins."""

    holder: HeldAllocation
    verdict: WasteVerdict
    open_finding: StandingFinding | None
    from_at: datetime

    @property
    def unseen_from(self) -> datetime:
        """Return from when on what was held is still to be added."""
        return self.from_at if self.open_finding is None else self.open_finding.until_at


def update_waste(
    *,
    window: JudgedWindow,
    is_daily: bool,
    thresholds: WasteThresholds,
    catalogue: Catalogue,
    at: datetime,
) -> int:
    """Bring a cluster's findings to the end of its newest sealed window; return how many are open.

    What is no longer so is closed. A dismissed finding is not made again for that allocation. Rules
    that look back a day or more are judged when `is_daily` only; until then their findings stay,
    unless the pod is gone or has a stronger finding. Twelve statements at most, whatever the number
    of allocations; call it in a transaction.
    """
    asked = rules_asked(thresholds, is_daily=is_daily)
    # Before hash joins are preferred: they would read the facts of all pods there ever were.
    holders = holders_at_end(window)
    prefer_hash_joins()
    verdicts = _verdicts(
        holders, asked=asked, window=window, thresholds=thresholds, catalogue=catalogue
    )
    standing = standing_findings(window.cluster_id, keys=verdicts)
    waiting = _waiting(standing, holders=holders, asked=asked, verdicts=verdicts)
    accusations = _accusations(
        {key: said for key, said in verdicts.items() if key not in waiting}, standing=standing
    )
    since = {item.holder.key: item.unseen_from for item in accusations}
    held = held_since(window, since=since)
    rows = [_row(item, window=window, held=held) for item in accusations]
    goes_on = [item.open_finding.id for item in accusations if item.open_finding is not None]
    given: dict[str, Any] = {"cluster": window.cluster_id, "goes_on": [*goes_on, *waiting.values()]}
    with connection.cursor() as cursor:
        cursor.execute(_CLOSE, given)
        if rows:
            cursor.execute(
                _WRITE, {"cluster": window.cluster_id, "rows": json.dumps(rows), "at": at}
            )
    return len(rows) + len(waiting)


def _verdicts(
    holders: Sequence[HeldAllocation],
    *,
    asked: Sequence[WasteRule],
    window: JudgedWindow,
    thresholds: WasteThresholds,
    catalogue: Catalogue,
) -> dict[HolderKey, tuple[HeldAllocation, WasteVerdict]]:
    """Return the verdicts by holder; rules with the same range share one statement."""
    by_hours = {
        hours: spells_before_end(window, holders=holders, hours=hours)
        for hours in sorted({thresholds.hours_of(rule) for rule in asked})
    }
    found = {}
    for holder in holders:
        spells = {
            rule: spell
            for rule in asked
            if (spell := by_hours[thresholds.hours_of(rule)].get(holder.key)) is not None
        }
        verdict = judge(
            holder.tenure,
            spells=spells,
            at=window.end_at,
            thresholds=thresholds,
            catalogue=catalogue,
        )
        if verdict is not None:
            found[holder.key] = (holder, verdict)
    return found


def _waiting(
    standing: Mapping[HolderKey, Sequence[StandingFinding]],
    *,
    holders: Sequence[HeldAllocation],
    asked: Sequence[WasteRule],
    verdicts: Mapping[HolderKey, tuple[HeldAllocation, WasteVerdict]],
) -> dict[HolderKey, int]:
    """Return the open findings, by holder, that stay until their rule is judged again."""
    present = {holder.key for holder in holders}
    found = {}
    for key in standing.keys() & present:
        said = verdicts.get(key)
        verdict = said[1] if said else None
        for finding in standing[key]:
            if finding.state == WasteState.OPEN and waits_for_its_day(
                finding.rule, asked=asked, verdict=verdict
            ):
                found[key] = finding.id
    return found


def _accusations(
    verdicts: Mapping[HolderKey, tuple[HeldAllocation, WasteVerdict]],
    *,
    standing: Mapping[HolderKey, Sequence[StandingFinding]],
) -> list[_Accusation]:
    """Return the accusations; no second of an allocation is in two findings."""
    found = []
    for key, (holder, verdict) in verdicts.items():
        known = standing.get(key, ())
        same = [finding for finding in known if finding.rule is verdict.rule]
        if any(finding.state == WasteState.DISMISSED for finding in same):
            continue
        still = next((finding for finding in same if finding.state == WasteState.OPEN), None)
        from_at = max((verdict.from_at, *(finding.until_at for finding in known)))
        found.append(
            _Accusation(holder, verdict, still, from_at if still is None else still.from_at)
        )
    return found


def _row(
    item: _Accusation, *, window: JudgedWindow, held: Mapping[HolderKey, int]
) -> dict[str, Any]:
    holder, verdict, tenure = item.holder, item.verdict, item.holder.tenure
    before = item.open_finding.held_unit_seconds if item.open_finding is not None else 0
    account = waste_account(
        held_unit_seconds=before + held.get(holder.key, 0),
        units=tenure.units,
        share=tenure.share,
        suggestion=verdict.suggestion,
    )
    return {
        "organization_id": str(holder.organization_id),
        "project_id": str(holder.project_id),
        "owner": holder.owner,
        "namespace": holder.namespace,
        "pod_name": holder.pod_name,
        "pod_uid": holder.pod_uid,
        "resource": holder.resource,
        "rule": verdict.rule.value,
        "from_at": item.from_at.isoformat(),
        "until_at": window.end_at.isoformat(),
        "units": tenure.units,
        "size": tenure.size,
        "price_group": tenure.price_group,
        "suggested_units": verdict.suggestion.units,
        "suggested_size": verdict.suggestion.size,
        "suggested_price_group": verdict.suggestion.price_group,
        "held_unit_seconds": account.held_unit_seconds,
        "suggested_unit_seconds": account.suggested_unit_seconds,
        "wasted_unit_seconds": account.wasted_unit_seconds,
        "activity_ratio": None if verdict.activity is None else str(verdict.activity),
        "memory_peak_mebibytes": verdict.memory_peak_mebibytes,
    }


def dismiss_finding(*, finding_id: int, reason: str, actor: Actor, at: datetime) -> WasteFinding:
    """Record that an allocation is intended; the rule is not applied to it again.

    Raises:
        NoteMissingError: The reason is empty.
        FindingNotOpenError: It has ended, or is dismissed already.
    """
    text = required_note(reason, field="reason")
    with transaction.atomic():
        changed = WasteFinding.objects.filter(pk=finding_id, state=WasteState.OPEN).update(
            state=WasteState.DISMISSED,
            reason=text,
            dismissed_at=at,
            dismissed_by_id=actor.person_id,
        )
        finding = WasteFinding.objects.get(pk=finding_id)
        if not changed:
            raise FindingNotOpenError("The finding is not open.")
        record(
            actor=actor,
            at=at,
            action="metering:waste:dismiss",
            object_kind="waste_finding",
            object_id=finding_id,
            organization_id=finding.organization_id,
            facts={
                "rule": finding.rule,
                "pod": f"{finding.namespace}/{finding.pod_name}",
                "wasted_unit_seconds": finding.wasted_unit_seconds,
                "reason": text,
            },
        )
    return finding
