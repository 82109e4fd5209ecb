"""Usage records behind a sum of use: the pods of one hour, project, owner, size and price group."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Count, F, Q, QuerySet, Subquery, Sum, Window
from django.db.models.functions import RowNumber

from metering.domain.collection.windows import WINDOW
from metering.models import MeteringWindow, UsageCorrection, UsageRecord
from tenants.domain.archives import ArchivedTable
from tenants.models import NamespaceBinding, Project
from tenants.selectors.archives import require_rows


@dataclass(frozen=True)
class UseKey:
    """What use is added up by before it has a price.

    Attributes:
        correction_id: The correction that it is of; None for what was metered.
    """

    window_id: int
    window_start: datetime
    project_id: UUID
    owner: str
    size: str
    price_group: str
    correction_id: UUID | None


@dataclass(frozen=True)
class UseRecords:
    """The largest records of some use, and of all of it how many and how much."""

    records: tuple[UsageRecord, ...]
    count: int
    unit_seconds: int


def use_of_record(record: UsageRecord) -> UseKey:
    """Return the use that a record is part of."""
    return UseKey(
        window_id=record.window_id,
        window_start=record.window_start,
        project_id=record.project_id,
        owner=record.owner,
        size=record.size,
        price_group=record.price_group,
        correction_id=record.correction_id,
    )


def largest_records(
    rows: QuerySet[UsageRecord], uses: Collection[UseKey], *, limit: int
) -> Mapping[UseKey, UseRecords]:
    """Return the largest records of each use; one statement.

    Args:
        rows: Those that may be read.
        uses: Of one project, size and price group.
        limit: How many of each at most.

    Raises:
        MonthArchivedError: Some of these hours are in an archive.
    """
    if not uses:
        return {}
    together = [F("window_id"), F("owner"), F("correction_id")]
    numbered = _matching(rows, uses).annotate(
        number=Window(
            RowNumber(), partition_by=together, order_by=[F("unit_seconds").desc(), F("pk")]
        ),
        alike=Window(Count("pk"), partition_by=together),
        used=Window(Sum("unit_seconds"), partition_by=together),
    )
    found: defaultdict[UseKey, list[UsageRecord]] = defaultdict(list)
    sums: dict[UseKey, tuple[int, int]] = {}
    for record in numbered.filter(number__lte=limit).order_by("pk"):
        use = use_of_record(record)
        found[use].append(record)
        sums[use] = record.alike, int(record.used)
    if len(found) < len(set(uses)):
        hours = [use.window_start for use in uses]
        require_rows(ArchivedTable.USAGE, begin_at=min(hours), end_at=max(hours) + WINDOW)
    return {use: UseRecords(tuple(found[use]), *sums[use]) for use in uses if use in found}


def _matching(rows: QuerySet[UsageRecord], uses: Collection[UseKey]) -> QuerySet[UsageRecord]:
    first = next(iter(uses))
    return rows.filter(
        owner__in={use.owner for use in uses},
        window_start__in={use.window_start for use in uses},
        window_id__in={use.window_id for use in uses},
        project=first.project_id,
        size=first.size,
        price_group=first.price_group,
    )


def records_of_project(rows: QuerySet[UsageRecord], project_id: UUID) -> QuerySet[UsageRecord]:
    """Return the records of a project, which are found by its organization and its bindings.

    The project is on another table. Records have an index by organization and hour, and a project
    stays with its organization. A record's hour is one in which a namespace was bound to the
    project, and bindings keep the hours that are metered: the later hours of others need not be
    read for a project that is bound no more.
    """
    payer = Project.objects.filter(pk=project_id).order_by().values("organization_id")
    rows = rows.filter(project=project_id, organization=Subquery(payer))
    bindings = NamespaceBinding.objects.filter(project=project_id).order_by()
    bound = list(bindings.values_list("valid", flat=True))
    begins, ends = [hours.lower for hours in bound], [hours.upper for hours in bound]
    if begins and None not in begins:
        rows = rows.filter(window_start__gte=min(begins))
    if ends and None not in ends:
        rows = rows.filter(window_start__lt=max(ends))
    return rows


def records_added_since(rows: QuerySet[UsageRecord], since: datetime) -> QuerySet[UsageRecord]:
    """Return the records whose hour was sealed, or whose correction was posted, since a time."""
    sealed = MeteringWindow.objects.filter(sealed_at__gte=since).order_by().values("pk")
    posted = UsageCorrection.objects.filter(decided_at__gte=since).order_by().values("pk")
    return rows.filter(Q(revision=0, window__in=sealed) | Q(correction__in=posted))
