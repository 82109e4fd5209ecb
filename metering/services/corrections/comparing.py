"""Comparing a sealed hour with what the ledger holds of it, part by part.

Of a hundred thousand records few differ. Those are kept, with what exceptions are about; all else
of a part ends with it.
"""

from dataclasses import dataclass, field

from metering.domain.catalogue.sizing import Catalogue
from metering.domain.collection.windows import GapPolicy
from metering.domain.corrections.correction import (
    RecheckComparison,
    UsageDifference,
    UsageKey,
    compare,
)
from metering.domain.corrections.exceptions import Finding, pod_subject
from metering.models import MeteringWindow
from metering.selectors.allocations.rows import AllocationKey
from metering.selectors.corrections.ledger import LedgerFact, ledger_of_window
from metering.services.collection.composed import NewAllocation, UsageRow, WindowFigures
from metering.services.collection.division.composing import compose_nodes_of, compose_part
from metering.services.collection.observing import Basis, HourObservation, HourPart, given_of
from metering.services.corrections.knowing import known_now
from metering.services.corrections.posting import subject_of


@dataclass
class Compared:
    """What differs of one window, and what its correction is made from.

    Attributes:
        known: What is known now, of records that differ or that a finding is about.
        ledger: What the ledger holds of the same.
        vouched_for: Of them those that both sources report, or about which a person decided.
    """

    window: MeteringWindow
    differences: list[UsageDifference] = field(default_factory=list)
    unproven_unit_seconds: int = 0
    unseen: int = 0
    known: dict[UsageKey, UsageRow] = field(default_factory=dict)
    ledger: dict[UsageKey, LedgerFact] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    new_allocations: list[NewAllocation] = field(default_factory=list)
    vouched_for: set[AllocationKey] = field(default_factory=set)

    @property
    def comparison(self) -> RecheckComparison:
        """Return the differences of all parts."""
        return RecheckComparison(
            differences=tuple(self.differences),
            unproven_unit_seconds=self.unproven_unit_seconds,
            unseen=self.unseen,
        )


def compare_hour(
    window: MeteringWindow,
    *,
    observed: HourObservation,
    basis: Basis,
    catalogue: Catalogue,
    gap_policy: GapPolicy | None,
) -> Compared:
    """Return how a sealed window differs from what is known of its hour now."""
    found, figures = Compared(window), WindowFigures()
    for part in observed.all_parts:
        _compare_part(
            observed.of_part(part),
            part=part,
            basis=basis,
            catalogue=catalogue,
            gap_policy=gap_policy,
            into=found,
            figures=figures,
        )
    if observed.parts:
        _, of_nodes = compose_nodes_of(
            observed, uses=figures.places, catalogue=catalogue, gap_policy=gap_policy
        )
        found.findings += of_nodes
        found.differences.sort(key=lambda one: one.key)
    return found


def _compare_part(  # noqa: PLR0913 - What a part is composed from; all but the hour keyword only.
    observed: HourObservation,
    *,
    part: HourPart,
    basis: Basis,
    catalogue: Catalogue,
    gap_policy: GapPolicy | None,
    into: Compared,
    figures: WindowFigures,
) -> None:
    """Add what differs in one part; all else that it holds in memory ends with the call."""
    window = into.window
    given = given_of(
        observed, basis=basis, catalogue=catalogue, gap_policy=gap_policy, part=part.part
    )
    composed = compose_part(given, part=part)
    ledger = ledger_of_window(window.pk, start_at=window.start_at, part=part.part)
    known = {row.key: row for row in composed.usage}
    comparison = compare(
        known_now(known, ledger=ledger, given=given),
        {key: fact.held for key, fact in ledger.items()},
    )
    into.differences += comparison.differences
    into.unproven_unit_seconds += comparison.unproven_unit_seconds
    into.unseen += comparison.unseen
    into.findings += composed.findings
    into.new_allocations += composed.new_allocations
    figures.add(WindowFigures(places=composed.places))
    subjects = {finding.subject for finding in composed.findings}
    subjects |= {subject_of(*difference.key) for difference in comparison.differences}
    into.known |= {key: row for key, row in known.items() if subject_of(*key) in subjects}
    into.ledger |= {key: fact for key, fact in ledger.items() if subject_of(*key) in subjects}
    into.vouched_for |= {
        key
        for key in (*composed.reported_by_both, *given.ledger.decisions)
        if pod_subject(uid=key[0], resource=key[1]) in subjects
    }
