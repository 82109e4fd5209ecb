"""Drafting: from the differences that a recheck found to corrections of one project and cause.

Decides what is posted at once and what needs approval; writes nothing.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from metering.domain.allocations.claims import allocation_key, offered_resource
from metering.domain.catalogue.units import sanitise
from metering.domain.corrections.correction import (
    NOTHING_HELD,
    CorrectionCause,
    DisputedUsage,
    RecheckReason,
    UsageDifference,
    UsageKey,
    release_of,
    stays_above_zero,
)
from metering.domain.corrections.exceptions import ExceptionKind, Finding, pod_subject
from metering.models import MeteringWindow
from metering.selectors.allocations.rows import AllocationKey
from metering.selectors.corrections.exceptions import holdings_of
from metering.selectors.corrections.ledger import LedgerFact, Line, undone_deltas
from metering.services.collection.composed import UsageRow
from metering.services.corrections.posting import Draft
from metering.services.corrections.rechecks import ClaimedRecheck

_OF_THE_CLAIM: Final = (
    "organization_id",
    "project_id",
    "node",
    "size",
    "price_group",
    "sharing_mode",
    "share_numerator",
    "share_denominator",
    "units",
    "catalogue_version",
)
"""Columns that a new part of a claim has from the parts the ledger holds."""


def less(lines: Sequence[Line], *, by: int) -> list[Line]:
    """Return lines that add so much less; what adds nothing any more is left out."""
    kept: list[Line] = []
    for line in lines:
        cut = min(by, max(0, line["unit_seconds"]))
        by -= cut
        if line["unit_seconds"] != cut:
            kept.append({**line, "unit_seconds": line["unit_seconds"] - cut})
    return kept


def line_of(row: UsageRow | None, *, fact: LedgerFact | None, sibling: LedgerFact | None) -> Line:
    """Return the record of a difference, without its delta.

    Args:
        row: What is known now; None when no source reports it any more.
        fact: What the ledger holds of it; None when it has no record yet.
        sibling: What the ledger holds of another part of the same claim, which belongs to the same
            project and is the same hardware.
    """
    if fact is not None:
        return _next_line(row, fact=fact)
    assert row is not None  # noqa: S101 - A difference has one of both; narrows the type.
    settled = {} if sibling is None else {name: sibling.line[name] for name in _OF_THE_CLAIM}
    return {**_first_line(row), **settled}


def _first_line(row: UsageRow) -> Line:
    """Return the record of a pod the window has none of."""
    fact, tenant = row.fact, row.tenant
    return {
        "organization_id": str(tenant.organization_id),
        "project_id": str(tenant.project_id),
        "owner": row.owner,
        "namespace": fact.namespace,
        "pod_name": fact.pod_name,
        "pod_uid": fact.pod_uid,
        "resource": fact.resource,
        "node": fact.node,
        "size": fact.size,
        "price_group": fact.price_group,
        "sharing_mode": fact.sharing_mode,
        "share_numerator": fact.share_numerator,
        "share_denominator": fact.share_denominator,
        "units": fact.units,
        "catalogue_version": fact.catalogue_version,
        "basis": 0,
        **_interval(row),
    }


def _next_line(row: UsageRow | None, *, fact: LedgerFact) -> Line:
    """Return the next revision: project and size stay, the times are those known now."""
    nothing = {"end_at": fact.line["begin_at"], "seconds": 0}
    return {
        **fact.line,
        "basis": fact.unit_seconds,
        **(nothing if row is None else _interval(row)),
    }


def _interval(row: UsageRow) -> Line:
    interval = row.interval
    return {
        "split_among": row.split_among,
        "begin_at": interval.begin_at.isoformat(),
        "end_at": interval.end_at.isoformat(),
        "seconds": interval.seconds,
        "end_kind": interval.end_kind.value,
        "slack_seconds": interval.slack_seconds,
    }


def taken_already(lines: Sequence[Line]) -> Finding:
    """Return the message for a correction that would take more than persons have left of it."""
    line = lines[0]
    uid, resource = allocation_key(uid=line["pod_uid"], resource=line["resource"])
    left = sum(one["basis"] for one in lines)
    return Finding(
        kind=ExceptionKind.UNCERTAIN_END,
        subject=pod_subject(uid=uid, resource=sanitise(resource)),
        namespace=line["namespace"],
        summary=(
            f"The sources tell less of {line['pod_name']} than was metered, but a person's "
            f"correction left {left} unit-seconds of it; nothing more is taken away."
        ),
        details={"pod": line["pod_name"], "left_unit_seconds": left},
    )


_ASKED_FOR: Final[Mapping[RecheckReason, str]] = {
    RecheckReason.SCHEDULED: "at a set time after it",
    RecheckReason.PERSON: "because a person asked for it",
    RecheckReason.BINDING: "because a namespace was bound",
    RecheckReason.CATALOGUE: "because the catalogue has a new version",
    RecheckReason.DECISION: "because a person accepted evidence",
    RecheckReason.WATCH: "because the watch of the cluster's API is back",
}
_TOLD: Final[Mapping[CorrectionCause, str]] = {
    CorrectionCause.LATE_DATA: "The sources tell more of the hour than when it was sealed",
    CorrectionCause.RELEASED: "What exceptions held when the hour was sealed is no longer in doubt",
}
_LESS: Final = "The cluster's API reported an exact end that is earlier than what is billed"
_DECIDED: Final = "A person accepted the evidence of a source that reports less than what is billed"
_MOVED: Final = "What a device claim used is split otherwise among its pods"


@dataclass(frozen=True)
class _Change:
    """What differs of one allocation with the records that would be written for it.

    Attributes:
        lines: One of a pod, several of a claim's parts; all of one project.
    """

    allocation: AllocationKey
    lines: Sequence[Line]
    cause: CorrectionCause
    wants_person: bool

    @property
    def unit_seconds(self) -> int:
        """Return the sum of the deltas."""
        return sum(line["unit_seconds"] for line in self.lines)

    @property
    def group(self) -> tuple[str, str, str]:
        """Return what makes changes one correction; reductions are decided separately."""
        takes_away = any(line["unit_seconds"] < 0 for line in self.lines)
        alone = " ".join(self.allocation) if takes_away else ""
        return self.lines[0]["project_id"], self.cause.value, alone

    @property
    def exceeds_capacity(self) -> frozenset[tuple[object, object]]:
        """Return the nodes and resources of which more is used; none when parts only move."""
        if self.unit_seconds <= 0:
            return frozenset()
        return frozenset((line["node"], offered_resource(line["resource"])) for line in self.lines)

    @property
    def deltas(self) -> frozenset[tuple[str, str, int]]:
        """Return pod, resource and delta of every line."""
        return frozenset(
            (line["pod_uid"], line["resource"], line["unit_seconds"]) for line in self.lines
        )


@dataclass(frozen=True)
class Drafts:
    """The corrections of a recheck.

    Attributes:
        passed_over: What could not be corrected, reported to people.
    """

    posted: Sequence[Draft]
    proposed: Sequence[Draft]
    passed_over: Sequence[Finding]


def drafts_of(  # noqa: PLR0913 - Everything a recheck found; all are keyword only.
    claimed: ClaimedRecheck,
    *,
    window: MeteringWindow,
    differences: Iterable[UsageDifference],
    known: Mapping[UsageKey, UsageRow],
    ledger: Mapping[UsageKey, LedgerFact],
    findings: Iterable[Finding],
    vouched_for: Collection[AllocationKey],
    posts_late_usage: bool,
    evidence: Sequence[Mapping[str, object]],
) -> Drafts:
    """Return the corrections to be posted and those to be proposed.

    A correction that a person rejected, or has not decided yet, is not proposed again. One that
    would take more than a person has left is skipped and reported, and the rest of the hour
    continues.

    Args:
        claimed: The recheck they come of.
        window: Its window.
        differences: What is to be corrected.
        known: What is known now.
        ledger: What the ledger holds.
        findings: The current findings.
        vouched_for: Pods that both sources report now, or about which a person decided.
        posts_late_usage: Whether later usage is posted without a person.
        evidence: Of the query, as JSON values.
    """
    holdings, undone = holdings_of(window), undone_deltas(window.pk)
    crowded = _crowded_places(findings)
    posted: list[_Change] = []
    proposed: list[_Change] = []
    passed_over: list[Finding] = []
    siblings = {_allocation_of(key): fact for key, fact in ledger.items()}
    for allocation, together in _by_allocation(differences).items():
        lines = [
            {
                **line_of(
                    known.get(difference.key),
                    fact=ledger.get(difference.key),
                    sibling=siblings.get(allocation),
                ),
                "unit_seconds": difference.unit_seconds,
            }
            for difference in together
        ]
        change = _change(
            allocation,
            lines=lines,
            holdings=holdings,
            vouched_for=vouched_for,
            wants_person=any(difference.wants_person for difference in together),
        )
        if change is None:
            continue
        # What a person removed already cannot be removed or moved.
        if not stays_above_zero(change.lines):
            passed_over.append(taken_already(change.lines))
            continue
        is_late = change.cause is CorrectionCause.LATE_DATA and not posts_late_usage
        if not (change.wants_person or is_late or change.exceeds_capacity & crowded):
            posted.append(change)
        elif not change.deltas <= undone:
            proposed.append(change)
    return Drafts(
        posted=_grouped(posted, claimed=claimed, window=window, evidence=evidence),
        proposed=_grouped(proposed, claimed=claimed, window=window, evidence=evidence),
        passed_over=passed_over,
    )


def _crowded_places(findings: Iterable[Finding]) -> frozenset[tuple[object, object]]:
    """Return the nodes and resources of which more would be used than there is."""
    return frozenset(
        (finding.details["node"], finding.details["resource"])
        for finding in findings
        if finding.kind is ExceptionKind.OVER_CAPACITY
    )


def _allocation_of(key: UsageKey) -> AllocationKey:
    return allocation_key(uid=key[0], resource=key[1])


def _by_allocation(
    differences: Iterable[UsageDifference],
) -> Mapping[AllocationKey, list[UsageDifference]]:
    grouped: dict[AllocationKey, list[UsageDifference]] = defaultdict(list)
    for difference in differences:
        grouped[_allocation_of(difference.key)].append(difference)
    return grouped


def _change(
    allocation: AllocationKey,
    *,
    lines: Sequence[Line],
    holdings: Mapping[str, DisputedUsage],
    vouched_for: Collection[AllocationKey],
    wants_person: bool,
) -> _Change | None:
    """Return what becomes of an allocation's differences; None when nothing follows of them."""
    uid, resource = allocation[0], sanitise(allocation[1])
    subject = pod_subject(uid=uid, resource=resource)
    net = sum(line["unit_seconds"] for line in lines)
    release = release_of(
        net,
        holding=holdings.get(subject, NOTHING_HELD),
        is_vouched_for=(uid, resource) in vouched_for,
        wants_person=wants_person,
    )
    if release.unit_seconds == 0 and net != 0:
        return None
    released = less(lines, by=net - release.unit_seconds)
    is_released = release.unit_seconds > 0 and subject in holdings
    return _Change(
        allocation,
        lines=released,
        cause=CorrectionCause.RELEASED if is_released else CorrectionCause.LATE_DATA,
        wants_person=release.wants_person,
    )


def _grouped(
    changes: Sequence[_Change],
    *,
    claimed: ClaimedRecheck,
    window: MeteringWindow,
    evidence: Sequence[Mapping[str, object]],
) -> list[Draft]:
    groups: dict[tuple[str, str, str], list[_Change]] = defaultdict(list)
    for change in changes:
        groups[change.group].append(change)
    return [
        Draft(
            window=window,
            cause=group[0].cause,
            reason=_reason(group[0], claimed=claimed),
            lines=[line for change in group for line in change.lines],
            evidence=evidence,
            recheck_id=claimed.id,
        )
        for _, group in sorted(groups.items())
    ]


def _reason(change: _Change, *, claimed: ClaimedRecheck) -> str:
    fewer = _DECIDED if claimed.reason is RecheckReason.DECISION else _LESS
    more = _TOLD[change.cause] if change.unit_seconds else _MOVED
    change_text = fewer if change.unit_seconds < 0 else more
    return f"{change_text}. It was looked at again {_ASKED_FOR[claimed.reason]}."
