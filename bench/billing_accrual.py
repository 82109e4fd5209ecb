"""Accruing a week of many organizations, beside a plain INSERT of as many rows into a copy.

The reference is `_PLAIN`: the charges that accrual made, inserted into a table with the columns,
indexes and checks of billing_charge. It reads rows that are rated already, looks nothing up, and
has neither triggers nor foreign keys.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from bench.harness import (
    Bound,
    Figure,
    invariant,
    ledger_database,
    measured,
    measurement,
    ratio,
    scaled,
)

MONTH_START = datetime(2026, 10, 1, tzinfo=UTC)
ORGANIZATIONS = 20
HOURS = scaled(168)
PODS = 600
"""Each has an owner of its own: as many charges as records."""
LARGE_WINDOW = scaled(150_000)
AT = MONTH_START + timedelta(hours=HOURS + 2)
SPEED_MIN = "0.5"
WAIT_MAX_SECONDS = Decimal("0.2")

_WINDOWS = """
INSERT INTO metering_meteringwindow (cluster_id, start_at, state, fence, attempt, failures,
  accepts_low_coverage, lease_owner, not_before, as_of, sources, evidence, record_count,
  record_digest, last_error)
SELECT %(cluster)s, hour, 'collected', 1, 1, 0, false, '', hour, hour + interval '2 hours', '[]',
       '[]', %(pods)s, '', ''
  FROM generate_series(%(begin)s, %(begin)s + (%(hours)s - 1) * interval '1 hour',
                       interval '1 hour') AS hour
"""
_USAGE = """
INSERT INTO metering_usagerecord (window_id, window_start, cluster_id, organization_id, project_id,
  owner, namespace, pod_name, pod_uid, resource, node, size, price_group, sharing_mode,
  share_numerator, share_denominator, units, begin_at, end_at, seconds, unit_seconds, end_kind,
  catalogue_version)
SELECT w.id, w.start_at, w.cluster_id, (%(organizations)s::uuid[])[1 + pod %% %(count)s],
       (%(projects)s::uuid[])[1 + pod %% %(count)s], 'user' || pod, 'ns',
       'pod-' || pod, 'uid-' || pod, 'nvidia_com_gpu', 'node',
       CASE WHEN pod %% %(count)s = %(unpriced)s THEN 'small' ELSE 'large' END, 'H100/whole',
       'whole', 1, 1, 1, w.start_at, w.start_at + interval '1 hour', 3600, 3600, 'open', 1
  FROM metering_meteringwindow w CROSS JOIN generate_series(1, %(pods)s) AS pod
 WHERE w.state = 'collected'
"""
_SEAL = """
UPDATE metering_meteringwindow SET state = 'sealed', sealed_at = start_at + interval '2 hours'
 WHERE state = 'collected'
"""
_COPY = "CREATE TABLE bench_charge (LIKE billing_charge INCLUDING ALL)"
_PLAIN = "INSERT INTO bench_charge SELECT * FROM billing_charge"
_EVERY = -1
"""No organization is without a price."""


def run() -> Iterator[Figure]:
    """Yield the figures of accrual."""
    with ledger_database():
        yield from _measure()


def _measure() -> Iterator[Figure]:
    from billing.models import Charge  # noqa: PLC0415 - Django is set up by now.
    from billing.tasks import ACTOR, accrue_pending  # noqa: PLC0415

    stage = _make_stage()
    _meter(stage, begin=MONTH_START, hours=HOURS, pods=PODS)
    with measured() as accrual:
        while accrue_pending(at=AT, actor=ACTOR)[0]:
            pass
    rows = HOURS * PODS
    yield invariant("billing_accrual.charges", Charge.objects.count(), "charges", rows)
    yield measurement("billing_accrual.rows_per_second", rows / accrual.seconds, "rows/s")
    _execute(_COPY, connection_name="owner")
    with measured() as plain:
        _execute(_PLAIN, connection_name="owner")
    yield ratio(
        "billing_accrual.speed_to_plain_insert",
        plain.seconds / accrual.seconds,
        Bound.AT_LEAST,
        SPEED_MIN,
    )
    begin = MONTH_START + timedelta(hours=HOURS)
    _meter(stage, begin=begin, hours=1, pods=LARGE_WINDOW)
    with measured() as large:
        accrue_pending(at=AT, actor=ACTOR)
    charged = Charge.objects.filter(window_start=begin).count()
    yield invariant("billing_accrual.large_window_charges", charged, "charges", LARGE_WINDOW)
    yield measurement("billing_accrual.large_window", large.seconds, "s")
    yield from _unpriced(stage, begin=begin + timedelta(hours=1))
    yield from _closing(stage, begin=begin + timedelta(hours=12))


def _unpriced(stage: dict[str, Any], *, begin: datetime) -> Iterator[Figure]:
    """Yield what a tick costs before and after an organization has hours without a price."""
    from billing.tasks import ACTOR, accrue_pending  # noqa: PLC0415 - Django is set up by now.

    with measured() as before, _statements() as statements_before:
        accrue_pending(at=AT, actor=ACTOR)
    _meter(stage, begin=begin, hours=10, pods=PODS, unpriced=0)
    accrue_pending(at=AT, actor=ACTOR)
    with measured() as after, _statements() as statements_after:
        accrue_pending(at=AT, actor=ACTOR)
    more = len(statements_after) - len(statements_before)
    yield invariant("billing_accrual.unpriced_adds_statements", more, "statements", 0)
    yield measurement("billing_accrual.idle_tick", before.seconds, "s")
    yield measurement("billing_accrual.idle_tick_with_unpriced_hours", after.seconds, "s")


def _closing(stage: dict[str, Any], *, begin: datetime) -> Iterator[Figure]:
    """Yield how long usage and accrual of an hour take while a month is being closed."""
    from django.db import transaction  # noqa: PLC0415 - Django is set up by now.

    from billing.models import BillingPeriod, Charge  # noqa: PLC0415
    from billing.selectors.locks import lock_organization, lock_period  # noqa: PLC0415
    from billing.tasks import ACTOR, accrue_pending  # noqa: PLC0415

    closed: UUID = stage["organizations"][0]
    with transaction.atomic():
        period = BillingPeriod.objects.get(organization=closed, label="2026-10")
        lock_period(period.pk)
        lock_organization(closed)
        with measured() as writing:
            _in_thread(lambda: _meter(stage, begin=begin, hours=1, pods=ORGANIZATIONS))
        with measured() as accruing:
            _in_thread(lambda: accrue_pending(at=AT, actor=ACTOR))
    charges = Charge.objects.filter(window_start=begin).count()
    yield invariant("billing_accrual.charges_beside_a_closing", charges, "", ORGANIZATIONS - 1)
    for name, watch in (("usage", writing), ("accrual", accruing)):
        yield Figure(
            f"billing_accrual.{name}_beside_a_closing",
            watch.seconds.quantize(Decimal("0.001")),
            "s",
            Bound.AT_MOST,
            WAIT_MAX_SECONDS,
        )


def _make_stage() -> dict[str, Any]:
    """Make organizations with a project each, which share a cluster and a price book."""
    from billing.services.pricing import (  # noqa: PLC0415 - Django is set up by now.
        assign_price_book,
        create_price_book,
        set_price,
    )
    from metering.services.catalogue import ensure_catalogue  # noqa: PLC0415
    from metering.services.collection.windows import ensure_partitions  # noqa: PLC0415
    from tenants.domain.actors import system_actor  # noqa: PLC0415
    from tenants.services.clusters import register_cluster  # noqa: PLC0415
    from tenants.services.organizations import (  # noqa: PLC0415
        create_organization,
        create_project,
    )

    made: dict[str, Any] = {"actor": system_actor("bench"), "at": MONTH_START}
    book = create_price_book(slug="b", name="B", currency="EUR", **made)
    set_price(
        price_book=book,
        size="large",
        unit_price=Decimal("2.5"),
        valid_from=MONTH_START,
        **made,
    )
    organizations, projects = [], []
    for number in range(ORGANIZATIONS):
        slug = f"o{number}"
        owner = create_organization(slug=slug, name=slug, billing_currency="EUR", **made)
        assign_price_book(organization=owner, price_book=book, valid_from=MONTH_START, **made)
        projects.append(create_project(organization=owner, slug="p", name="P", **made).pk)
        organizations.append(owner.pk)
    cluster = register_cluster(slug="bench", name="Bench", metered_from=MONTH_START, **made)
    ensure_catalogue(**made)
    ensure_partitions(from_month=MONTH_START, months=1)
    return {
        "cluster": cluster.pk,
        "organizations": organizations,
        "projects": projects,
        "count": ORGANIZATIONS,
    }


def _meter(
    stage: dict[str, Any], *, begin: datetime, hours: int, pods: int, unpriced: int = _EVERY
) -> None:
    """Seal hours of usage, divided evenly over the organizations; one may lack its price."""
    values = {**stage, "begin": begin, "hours": hours, "pods": pods, "unpriced": unpriced}
    # Sealed hours are immutable, so insert the records before the seal.
    for statement in (_WINDOWS, _USAGE, _SEAL):
        _execute(statement, values)
    if pods > ORGANIZATIONS:
        _execute("ANALYZE metering_usagerecord", connection_name="owner")


def _execute(
    statement: str, values: dict[str, Any] | None = None, *, connection_name: str = "default"
) -> None:
    from django.db import connections  # noqa: PLC0415 - Django is set up by now.

    with connections[connection_name].cursor() as cursor:
        cursor.execute(statement, values)


@contextmanager
def _statements() -> Iterator[list[str]]:
    """Yield the statements of a block, which are in the list when it has ended."""
    from django.db import connection  # noqa: PLC0415 - Django is set up by now.
    from django.test.utils import CaptureQueriesContext  # noqa: PLC0415

    found: list[str] = []
    with CaptureQueriesContext(connection) as captured:
        yield found
    found += [query["sql"] for query in captured]


def _in_thread(call: Callable[[], object]) -> None:
    from django.db import connections  # noqa: PLC0415 - Django is set up by now.

    def closed() -> None:
        try:
            call()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(closed).result()
