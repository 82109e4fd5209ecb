"""Writing the pods of a window, or of one part of it after another."""

from dataclasses import dataclass, field
from datetime import datetime

from metering.domain.catalogue.sizing import Catalogue
from metering.domain.collection.crashpoints import crashpoint
from metering.domain.collection.parts import WHOLE, Part
from metering.domain.corrections.exceptions import Finding
from metering.services.collection.composed import (
    CapacityRow,
    ClaimedWindow,
    Composed,
    WindowFigures,
)
from metering.services.collection.division.composing import compose_part
from metering.services.collection.findings import keep_findings
from metering.services.collection.observing import Basis, HourObservation, HourPart, given_of
from metering.services.collection.posting import close_unseen, write_allocations, write_usage
from metering.services.collection.reconciliation import figures_of


@dataclass
class Posted:
    """What the parts of a window have left to be written with its end.

    Attributes:
        findings: Those that are not kept yet.
    """

    figures: WindowFigures = field(default_factory=WindowFigures)
    capacity: list[CapacityRow] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def post_part(  # noqa: PLR0913 - What a part is composed from; all but the claim keyword only.
    claimed: ClaimedWindow,
    *,
    observed: HourObservation,
    part: HourPart,
    basis: Basis,
    catalogue: Catalogue,
    at: datetime,
    into: Posted,
) -> None:
    """Write the allocations and the usage of a part; what it holds in memory ends with the call."""
    policy = claimed.gap_policy
    given = given_of(observed, basis=basis, catalogue=catalogue, gap_policy=policy, part=part.part)
    composed = compose_part(given, part=part)
    write_pods(claimed, observed=observed, composed=composed, part=part.part)
    figures = figures_of(composed, holes=observed.holes)
    if part.part.is_whole:
        figures.findings = []
        into.findings += composed.findings
        into.capacity = composed.capacity
    else:
        keep_findings(claimed, findings=composed.findings, at=at)
    into.figures.add(figures)


def write_pods(
    claimed: ClaimedWindow,
    *,
    observed: HourObservation,
    composed: Composed,
    part: Part = WHOLE,
) -> None:
    """Write the allocations and the usage of a window's pods, or of those of a part."""
    write_allocations(claimed, new=composed.new_allocations, seen_again=composed.seen_again)
    coverage = observed.coverage
    was_observed = coverage is not None and coverage.observed > 0 and not coverage.is_blind_at_end
    if observed.observation is not None and was_observed and not claimed.hour.is_watched:
        pod_uids = [pod.uid for pod in observed.observation.pods]
        close_unseen(claimed, pod_uids=pod_uids, part=part)
    if composed.usage:
        write_usage(claimed, rows=composed.usage)
    crashpoint("collect.after_records" if part.is_whole else "part.after_records")
