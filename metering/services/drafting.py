"""Drafting: from the differences a recheck found to corrections, each of one project and cause.

What goes into the ledger at once and what waits for a person is decided here; nothing is written.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from metering.domain.correction import CorrectionCause, Difference, RecheckReason, UsageKey
from metering.domain.exceptions import ExceptionKind, Finding, pod_subject
from metering.domain.releasing import NOTHING_HELD, Holding, release_of
from metering.domain.resource_names import sanitise
from metering.models import MeteringWindow
from metering.selectors.allocations import AllocationKey
from metering.selectors.corrections import LedgerFact, Line, plain, undone_deltas
from metering.selectors.holdings import holdings_of
from metering.services.composed import UsageRow
from metering.services.correcting import Draft
from metering.services.rechecks import ClaimedRecheck

_ASKED_FOR: Final[Mapping[RecheckReason, str]] = {
    RecheckReason.SCHEDULED: "at a set time after it",
    RecheckReason.PERSON: "because a person asked for it",
    RecheckReason.BINDING: "because a namespace was bound",
    RecheckReason.CATALOGUE: "because the catalogue has a new version",
    RecheckReason.DECISION: "because a person accepted evidence",
}
_TOLD: Final[Mapping[CorrectionCause, str]] = {
    CorrectionCause.LATE_DATA: "The sources tell more of the hour than when it was sealed",
    CorrectionCause.RELEASED: "What exceptions held when the hour was sealed is no longer in doubt",
}
_LESS: Final = "The cluster's API told an exact end that is earlier than what is billed"
_DECIDED: Final = "A person accepted the evidence of a source that tells less than what is billed"


@dataclass(frozen=True)
class _Change:
    """One difference with the record that would be written for it."""

    line: Line
    cause: CorrectionCause
    wants_person: bool

    @property
    def group(self) -> tuple[str, str, str]:
        """Return what makes changes one correction; what is taken away is decided on by itself."""
        alone = f"{self.line['pod_uid']} {self.line['resource']}"
        return (
            self.line["project_id"],
            self.cause.value,
            alone if self.line["unit_seconds"] < 0 else "",
        )


def drafts_of(  # noqa: PLR0913 - Everything a recheck found; all are keyword only.
    claimed: ClaimedRecheck,
    *,
    window: MeteringWindow,
    differences: Iterable[Difference],
    known: Mapping[UsageKey, UsageRow],
    ledger: Mapping[UsageKey, LedgerFact],
    findings: Iterable[Finding],
    vouched_for: Collection[AllocationKey],
    posts_late_usage: bool,
    evidence: Sequence[Mapping[str, object]],
) -> tuple[list[Draft], list[Draft]]:
    """Return the corrections to be posted and those to be proposed.

    What a person has rejected, or has still to decide on, is not proposed again.

    Args:
        claimed: The recheck they come of.
        window: Its window.
        differences: What is to be corrected.
        known: What is known now.
        ledger: What the ledger holds.
        findings: What does not add up as of now.
        vouched_for: Pods of which both sources tell now, or about which a person decided.
        posts_late_usage: Whether later usage is posted without a person.
        evidence: Of the query, as JSON values.
    """
    holdings, undone = holdings_of(window), undone_deltas(window.pk)
    crowded = _crowded_places(findings)
    posted: list[_Change] = []
    proposed: list[_Change] = []
    for difference in differences:
        change = _change(
            difference,
            row=known.get(difference.key),
            fact=ledger.get(difference.key),
            holdings=holdings,
            vouched_for=vouched_for,
        )
        if change is None:
            continue
        is_late = change.cause is CorrectionCause.LATE_DATA and not posts_late_usage
        place = (change.line["node"], change.line["resource"])
        if not (change.wants_person or is_late or place in crowded):
            posted.append(change)
        elif (*difference.key, change.line["unit_seconds"]) not in undone:
            proposed.append(change)
    return (
        _grouped(posted, claimed=claimed, window=window, evidence=evidence),
        _grouped(proposed, claimed=claimed, window=window, evidence=evidence),
    )


def _crowded_places(findings: Iterable[Finding]) -> frozenset[tuple[object, object]]:
    """Return the nodes and resources of which more would be used than there is."""
    return frozenset(
        (finding.details["node"], finding.details["resource"])
        for finding in findings
        if finding.kind is ExceptionKind.OVER_CAPACITY
    )


def _change(
    difference: Difference,
    *,
    row: UsageRow | None,
    fact: LedgerFact | None,
    holdings: Mapping[str, Holding],
    vouched_for: Collection[AllocationKey],
) -> _Change | None:
    uid, resource = difference.key
    subject = pod_subject(uid=uid, resource=sanitise(resource))
    release = release_of(
        difference.unit_seconds,
        holding=holdings.get(subject, NOTHING_HELD),
        is_vouched_for=(uid, sanitise(resource)) in vouched_for,
        wants_person=difference.wants_person,
    )
    if release.unit_seconds == 0:
        return None
    is_released = release.unit_seconds > 0 and subject in holdings
    return _Change(
        line={**_line(row, fact=fact), "unit_seconds": release.unit_seconds},
        cause=CorrectionCause.RELEASED if is_released else CorrectionCause.LATE_DATA,
        wants_person=release.wants_person,
    )


def _line(row: UsageRow | None, *, fact: LedgerFact | None) -> Line:
    if fact is None:
        assert row is not None  # noqa: S101 - A difference has one of both; tells the type.
        return _first_line(row)
    return _next_line(row, fact=fact)


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
        "busy_ratio": plain(row.activity.busy_ratio),
        "busy_coverage": plain(row.activity.coverage),
        "energy_millijoules": row.activity.energy_millijoules,
        "basis": 0,
        **_interval(row),
    }


def _next_line(row: UsageRow | None, *, fact: LedgerFact) -> Line:
    """Return the next revision: whose and what it is stays, when it was is what is known now."""
    nothing = {"end_at": fact.line["begin_at"], "seconds": 0}
    return {
        **fact.line,
        "energy_millijoules": None,
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
            lines=[change.line for change in group],
            evidence=evidence,
            recheck_id=claimed.id,
        )
        for _, group in sorted(groups.items())
    ]


def _reason(change: _Change, *, claimed: ClaimedRecheck) -> str:
    less = _DECIDED if claimed.reason is RecheckReason.DECISION else _LESS
    told = less if change.line["unit_seconds"] < 0 else _TOLD[change.cause]
    return f"{told}. It was looked at again {_ASKED_FOR[claimed.reason]}."
