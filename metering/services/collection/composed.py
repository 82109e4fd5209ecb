"""What a window is composed from, and what it is composed to: rows before they are written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar
from uuid import UUID

import msgspec

from metering.domain.allocations.timeline import Interval, Life
from metering.domain.catalogue.sizing import Catalogue
from metering.domain.catalogue.units import sanitise
from metering.domain.collection.capacity import Balance
from metering.domain.collection.hour_decisions import Shown
from metering.domain.collection.reconciliation import SourceVerdict
from metering.domain.collection.scrape_coverage import ScrapeCoverage
from metering.domain.collection.windows import WINDOW, GapPolicy
from metering.domain.corrections.exceptions import ExceptionKind, Finding
from metering.protocols import ClusterTarget, Observation
from metering.selectors.allocations.ledger import WindowLedger
from metering.selectors.allocations.rows import AllocationFact, AllocationKey, SettledFacts
from tenants.models import Cluster
from tenants.selectors.directory import Directory, NamespaceFact


@dataclass(frozen=True)
class Hour:
    """What has to be known to meter an hour, and whether the API writes its allocation ledger.

    Attributes:
        settled: What was read for the hours before it that the same worker meters.
    """

    cluster_id: UUID
    start_at: datetime
    target: ClusterTarget
    is_watched: bool = False
    settled: SettledFacts = field(default_factory=SettledFacts, compare=False, repr=False)

    @property
    def end_at(self) -> datetime:
        """Return the end of the hour, excluded."""
        return self.start_at + WINDOW

    @property
    def asks_a_source(self) -> bool:
        """Whether there is a source to query besides the ledger; required without a watch."""
        return not self.is_watched or self.target.prometheus_url != ""

    @property
    def has_two_sources(self) -> bool:
        """Whether two sources can be compared."""
        return self.is_watched and self.target.prometheus_url != ""


def target_of(cluster: Cluster) -> ClusterTarget:
    """Return a cluster as a source needs to know it."""
    return ClusterTarget(
        slug=cluster.slug,
        prometheus_url=cluster.prometheus_url,
        prometheus_credential_reference=cluster.prometheus_credential_reference,
        prometheus_scope_org_id=cluster.prometheus_scope_org_id,
        scrape_interval_seconds=cluster.scrape_interval_seconds,
        selector_label=cluster.selector_label,
        selector_value=cluster.selector_value,
        user_label=sanitise(cluster.user_label),
        label_aliases={name: tuple(names) for name, names in cluster.label_aliases.items()},
        metric_aliases={name: tuple(names) for name, names in cluster.metric_aliases.items()},
    )


@dataclass(frozen=True, kw_only=True)
class LeasedHour:
    """Work on one hour that a worker may do while its fence and lease are valid.

    Attributes:
        id: Of the leased row: the window, or its recheck.
        failures: Consecutive unusable responses.
    """

    id: int
    hour: Hour
    fence: int
    failures: int

    @property
    def cluster_id(self) -> UUID:
        """Return the cluster of the hour."""
        return self.hour.cluster_id

    @property
    def start_at(self) -> datetime:
        """Return the begin of the hour, included."""
        return self.hour.start_at

    @property
    def end_at(self) -> datetime:
        """Return the end of the hour, excluded."""
        return self.hour.end_at

    @property
    def target(self) -> ClusterTarget:
        """Return the cluster as a source needs to know it."""
        return self.hour.target


@dataclass(frozen=True, kw_only=True)
class ClaimedWindow(LeasedHour):
    """One hour of one cluster that a worker may collect.

    Attributes:
        claimed_at: When it was claimed, by the database's clock: no work on it has an earlier time.
        gap_policy: The decision about unobserved time; None without one.
        decided_on: The evidence shown for that decision.
        is_divided: Whether it is being metered in parts.
        former_records: The most records of a metered hour not long before; None without one.
    """

    attempt: int
    accepts_low_coverage: bool
    claimed_at: datetime
    gap_policy: GapPolicy | None = None
    decided_on: Shown = field(default_factory=Shown)
    is_divided: bool = False
    former_records: int | None = None

    @property
    def is_decided(self) -> bool:
        """Whether a person, or the settings, decided on it."""
        return self.gap_policy is not None or self.accepts_low_coverage


@dataclass(frozen=True)
class WindowInput:
    """Everything a window is composed from.

    Attributes:
        observation: What a source observed; None when only the ledger covers the hour.
        scrapes: When the scrapes observed what; without a source, nothing.
        ledger: The database's data of the hour.
        is_trusted: Whether both sources observed enough to be compared pod by pod; when one was
            unavailable for the hour, one finding about the hour records that.
        gap_policy: The decision about unobserved time.
    """

    hour: Hour
    observation: Observation | None
    scrapes: ScrapeCoverage
    ledger: WindowLedger
    directory: Directory
    catalogue: Catalogue
    is_trusted: bool = True
    gap_policy: GapPolicy | None = None

    @property
    def scrape_interval_seconds(self) -> int:
        """Return how far scrapes should be apart."""
        return self.hour.target.scrape_interval_seconds


FindingKey = tuple[ExceptionKind, str]
"""Kind and subject: a window has one finding of each."""


class UsageRow(msgspec.Struct, frozen=True):
    """One usage record before it is written.

    Attributes:
        unit_seconds: What is billed.
        split_among: Pods that shared it at once; above 1, `unit_seconds` is this pod's share.
        offered_as: What the node offers, for a part of a claim; "" for a pod's own.
    """

    fact: AllocationFact
    tenant: NamespaceFact
    interval: Interval
    unit_seconds: int
    split_among: int = 1
    offered_as: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Return its unique key in the window: pod uid and resource."""
        return self.fact.pod_uid, self.fact.resource

    @property
    def owner(self) -> str:
        """Return the owning user's name: the pod's label, else the binding's default, else ""."""
        return self.fact.owner or self.tenant.default_owner

    def fact_values(self, cluster_id: UUID) -> dict[str, object]:
        """Return what its hours have in common, by column of `metering_usagefact`."""
        tenant, fact = self.tenant, self.fact
        return {
            "organization_id": tenant.organization_id,
            "project_id": tenant.project_id,
            "cluster_id": cluster_id,
            "owner": self.owner,
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
        }


@dataclass(frozen=True)
class NewAllocation:
    """A newly observed allocation, by a source and not by the API."""

    fact: AllocationFact
    priority_class: str
    node_labels: Mapping[str, str]
    life: Life
    last_seen_at: datetime


class SeenAgain(msgspec.Struct, frozen=True):
    """A later observation of an allocation that only a source reported."""

    allocation_id: int
    life: Life
    last_seen_at: datetime


Place = tuple[str, str]
"""Node and sanitised resource; the class of a device claim as it is."""


class PlaceUse(msgspec.Struct):
    """What pods used of one resource of one node, added up; see `ObservedCapacity`.

    Attributes:
        hole_unit_seconds: What was billed in the time that neither source observed.
    """

    billed_unit_seconds: int = 0
    held_unit_seconds: int = 0
    disputed_unit_seconds: int = 0
    slack_unit_seconds: int = 0
    units_in_use_max: int = 0
    hole_unit_seconds: int = 0

    def add(self, use: "PlaceUse") -> None:
        """Add what other pods used."""
        self.billed_unit_seconds += use.billed_unit_seconds
        self.held_unit_seconds += use.held_unit_seconds
        self.disputed_unit_seconds += use.disputed_unit_seconds
        self.slack_unit_seconds += use.slack_unit_seconds
        self.units_in_use_max = max(self.units_in_use_max, use.units_in_use_max)
        self.hole_unit_seconds += use.hole_unit_seconds


class NodeUse(msgspec.Struct, frozen=True):
    """One pod's use of one resource of one node.

    Attributes:
        resource: Sanitised name.
        slack_seconds: Uncertainty of the end.
        is_disputed: Whether only one of two sources reports it.
    """

    node: str
    resource: str
    units: int
    unit_seconds: int
    slack_seconds: int
    is_disputed: bool = False


@dataclass(frozen=True)
class CapacityRow:
    """One capacity record before it is written; see models.CapacityRecord."""

    node: str
    resource: str
    size: str
    price_group: str
    sharing_mode: str
    share_numerator: int
    share_denominator: int
    allocatable_units: int
    billed_unit_seconds: int
    balance: Balance


@dataclass
class SourceComparison:
    """How the sources of a window compare; see models.MeteringWindow.reconciliation.

    Attributes:
        verdicts: Pods and resources by verdict.
        billed_unit_seconds: By source, what it alone would have billed.
        disputed_unit_seconds: Held because the sources differ.
    """

    verdicts: dict[SourceVerdict, int] = field(default_factory=dict)
    billed_unit_seconds: dict[str, int] = field(default_factory=dict)
    disputed_unit_seconds: int = 0

    def add(self, other: "SourceComparison") -> None:
        """Add how they compare for other pods."""
        _add_counts(self.verdicts, other.verdicts)
        _add_counts(self.billed_unit_seconds, other.billed_unit_seconds)
        self.disputed_unit_seconds += other.disputed_unit_seconds


class WindowFigures(msgspec.Struct):
    """What the pods of a window, or of a part of it, add up to.

    Attributes:
        records: Usage records.
        billed_unit_seconds: By size.
        held_unit_seconds: By cause.
        pods: Uids of those that are billed or held.
        findings: Kind and subject of each.
    """

    records: int = 0
    billed_unit_seconds: dict[str, int] = msgspec.field(default_factory=dict)
    held_unit_seconds: dict[str, int] = msgspec.field(default_factory=dict)
    pods: set[str] = msgspec.field(default_factory=set)
    findings: list[FindingKey] = msgspec.field(default_factory=list)
    places: dict[Place, PlaceUse] = msgspec.field(default_factory=dict)
    comparison: SourceComparison = msgspec.field(default_factory=SourceComparison)

    @property
    def unit_seconds(self) -> int:
        """Return what is billed of all sizes."""
        return sum(self.billed_unit_seconds.values())

    def add(self, other: "WindowFigures") -> None:
        """Add those of another part, in place."""
        self.records += other.records
        _add_counts(self.billed_unit_seconds, other.billed_unit_seconds)
        _add_counts(self.held_unit_seconds, other.held_unit_seconds)
        self.pods |= other.pods
        self.findings += other.findings
        for place, use in other.places.items():
            self.places.setdefault(place, PlaceUse()).add(use)
        self.comparison.add(other.comparison)


Key = TypeVar("Key")


def _add_counts(counts: dict[Key, int], others: Mapping[Key, int]) -> None:
    for key, count in others.items():
        counts[key] = counts.get(key, 0) + count


@dataclass
class Composed:
    """The rows of one window, or of a part of it, by pod and resource.

    Attributes:
        places: What the usage and what is held add up to.
        reported_by_both: Pods and sanitised resources that both sources report.
    """

    usage: list[UsageRow] = field(default_factory=list)
    new_allocations: list[NewAllocation] = field(default_factory=list)
    seen_again: list[SeenAgain] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    capacity: list[CapacityRow] = field(default_factory=list)
    held: list[NodeUse] = field(default_factory=list)
    places: dict[Place, PlaceUse] = field(default_factory=dict)
    comparison: SourceComparison = field(default_factory=SourceComparison)
    reported_by_both: set[AllocationKey] = field(default_factory=set)
