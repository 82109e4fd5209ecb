"""Accruing weeks of many organizations, beside a plain INSERT of as many rows into a copy.

The reference is `_PLAIN`: the charges that accrual made, inserted into a table with the columns,
indexes and checks of billing_charge. It reads rows that are rated already, looks nothing up, and
has neither triggers nor foreign keys.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from bench.billing_stage import MONTH_START, execute, make_stage, meter
from bench.harness import (
    Bound,
    Figure,
    invariant,
    ledger_database,
    measured,
    measurement,
    ratio,
    row_sizes,
    scaled,
)

ORGANIZATIONS = 20
HOURS = scaled(168)
WEEKS = 3
"""One of either is over in a second, in which the server may write a checkpoint."""
PODS = 600
"""Each has an owner of its own: as many charges as records."""
LARGE_WINDOW = scaled(150_000)
AT = MONTH_START + timedelta(hours=WEEKS * HOURS + 2)
SPEED_MIN = "0.42"
WAIT_MAX_SECONDS = Decimal("0.2")
FACTS = scaled(1_000_000)
"""Pods of former months: what their records repeat is kept."""
HOUR_BESIDE_FACTS_MAX = "1.5"

_COPY = "CREATE TABLE bench_charge (LIKE billing_charge INCLUDING ALL)"
_PLAIN = """
INSERT INTO bench_charge SELECT * FROM billing_charge
 WHERE window_start >= %(begin)s AND window_start < %(end)s
"""
_FACTS = """
INSERT INTO metering_usagefact (id, version, cluster_id, organization_id, project_id, owner,
  namespace, pod_name, pod_uid, resource, node, size, price_group, sharing_mode, share_numerator,
  share_denominator, units, catalogue_version)
SELECT nextval('metering_usagefact_id_seq'), 1, cluster_id, organization_id, project_id, owner,
       namespace, pod_name, gen_random_uuid()::text, resource, node, size, price_group,
       sharing_mode, share_numerator, share_denominator, units, catalogue_version
  FROM (SELECT * FROM metering_usagefact LIMIT 1) former, generate_series(1, %(facts)s)
"""


def run() -> Iterator[Figure]:
    """Yield the figures of accrual."""
    with ledger_database():
        yield from _measure()


def _measure() -> Iterator[Figure]:
    from billing.models import Charge  # noqa: PLC0415 - Django is set up by now.
    from billing.tasks import ACTOR, accrue_pending  # noqa: PLC0415

    stage = make_stage(ORGANIZATIONS, bound_hours=WEEKS * HOURS)
    execute(_COPY, connection_name="owner")
    accruing = inserting = Decimal(0)
    for week in range(WEEKS):
        begin = MONTH_START + timedelta(hours=week * HOURS)
        meter(stage, begin=begin, hours=HOURS, pods=PODS)
        with measured() as accrual:
            while accrue_pending(at=AT, actor=ACTOR)[0]:
                pass
        span = {"begin": begin, "end": begin + timedelta(hours=HOURS)}
        with measured() as plain:
            execute(_PLAIN, span, connection_name="owner")
        accruing, inserting = accruing + accrual.seconds, inserting + plain.seconds
    rows = WEEKS * HOURS * PODS
    yield invariant("billing_accrual.charges", Charge.objects.count(), "charges", rows)
    yield measurement("billing_accrual.rows_per_second", rows / accruing, "rows/s")
    yield ratio(
        "billing_accrual.speed_to_plain_insert", inserting / accruing, Bound.AT_LEAST, SPEED_MIN
    )
    begin = MONTH_START + timedelta(hours=WEEKS * HOURS)
    meter(stage, begin=begin, hours=1, pods=LARGE_WINDOW)
    with measured() as large:
        accrue_pending(at=AT, actor=ACTOR)
    charged = Charge.objects.filter(window_start=begin).count()
    yield invariant("billing_accrual.large_window_charges", charged, "charges", LARGE_WINDOW)
    yield measurement("billing_accrual.large_window", large.seconds, "s")
    yield from row_sizes("billing_charge", "billing_accruedusage")
    yield from _unpriced(stage, begin=begin + timedelta(hours=1))
    yield from _closing(stage, begin=begin + timedelta(hours=12))
    yield _beside_many_facts(stage, begin=begin + timedelta(hours=24))


def _unpriced(stage: dict[str, Any], *, begin: datetime) -> Iterator[Figure]:
    """Yield what a tick costs before and after an organization has hours without a price."""
    from billing.tasks import ACTOR, accrue_pending  # noqa: PLC0415 - Django is set up by now.

    with measured() as before, _statements() as statements_before:
        accrue_pending(at=AT, actor=ACTOR)
    meter(stage, begin=begin, hours=10, pods=PODS, unpriced=0)
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
            _in_thread(lambda: meter(stage, begin=begin, hours=1, pods=ORGANIZATIONS))
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


def _beside_many_facts(stage: dict[str, Any], *, begin: datetime) -> Figure:
    """Return how much longer an hour takes once the facts of a million more pods are there."""
    alone = _shortest_hour(stage, begin=begin)
    # Their numbers and digests are not what is measured.
    execute("ALTER TABLE metering_usagefact DISABLE TRIGGER USER", connection_name="owner")
    execute(_FACTS, {"facts": FACTS}, connection_name="owner")
    execute("ALTER TABLE metering_usagefact ENABLE TRIGGER USER", connection_name="owner")
    execute("VACUUM ANALYZE metering_usagefact", connection_name="owner")
    beside = _shortest_hour(stage, begin=begin + timedelta(hours=12))
    return ratio(
        "billing_accrual.hour_beside_many_facts",
        beside / alone,
        Bound.AT_MOST,
        HOUR_BESIDE_FACTS_MAX,
    )


def _shortest_hour(stage: dict[str, Any], *, begin: datetime) -> Decimal:
    """Return the seconds that the accrual of one of five hours takes, the least of them."""
    from billing.tasks import ACTOR, accrue_pending  # noqa: PLC0415 - Django is set up by now.

    seconds = []
    for number in range(5):
        meter(stage, begin=begin + timedelta(hours=number), hours=1, pods=PODS)
        with measured() as watch:
            accrue_pending(at=AT + timedelta(days=2), actor=ACTOR)
        seconds.append(watch.seconds)
    return min(seconds)


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
