"""Accruing and invoicing a month: rows a second, beside a plain sum of the same rows."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from bench.harness import (
    Bound,
    Figure,
    ledger_database,
    measured,
    measurement,
    ratio,
    scaled,
)

MONTH_START = datetime(2026, 10, 1, tzinfo=UTC)
HOURS = 744
PODS = scaled(200)
AT = MONTH_START + timedelta(hours=HOURS + 1)
BATCH = 50
ACCRUAL_TO_SUM_MAX = 14
INVOICE_TO_SUM_MAX = "1.6"

# Sealed hours are immutable, so insert the records before the seal.
_WINDOWS = """
INSERT INTO metering_meteringwindow (cluster_id, start_at, state, fence, attempt, failures,
  accepts_low_coverage, lease_owner, not_before, as_of, sources, evidence, record_count,
  record_digest, last_error)
SELECT %(cluster)s, hour, 'collected', 1, 1, 0, false, '', hour, hour + interval '2 hours', '[]',
       '[]', 0, '', ''
  FROM generate_series(%(begin)s, %(begin)s + %(hours)s * interval '1 hour' - interval '1 hour',
                       interval '1 hour') AS hour
"""
_USAGE = """
SELECT w.id AS window_id, w.start_at AS window_start, w.cluster_id,
       %(organization)s AS organization_id, %(project)s AS project_id,
       'user' || pod %% 20 AS owner, 'ns' AS namespace, 'pod-' || pod AS pod_name,
       'uid-' || pod AS pod_uid, 'nvidia_com_gpu' AS resource, 'node' AS node, 'large' AS size,
       'H100/whole' AS price_group, 'whole' AS sharing_mode, 1 AS share_numerator,
       1 AS share_denominator, 1 + pod %% 4 AS units, w.start_at AS begin_at,
       w.start_at + interval '1 hour' AS end_at, 3600 * (1 + pod %% 4) AS unit_seconds,
       'open' AS end_kind, 1 AS catalogue_version
  FROM metering_meteringwindow w CROSS JOIN generate_series(1, %(pods)s) AS pod
"""
_SEAL = """
UPDATE metering_meteringwindow SET state = 'sealed', sealed_at = start_at + interval '2 hours'
"""
_PLAIN_SUM = """
SELECT project_id, owner, size, price_group, sum(unit_seconds) FROM metering_sealed_usage
 GROUP BY window_id, project_id, owner, size, price_group
"""


def run() -> Iterator[Figure]:
    """Yield the figures of billing."""
    with ledger_database():
        yield from _measure()


def _measure() -> Iterator[Figure]:
    from billing.adapters.terms import invoice_terms  # noqa: PLC0415 - Django is set up by now.
    from billing.models import BillingPeriod  # noqa: PLC0415
    from billing.services.finalizing import finalize_invoice  # noqa: PLC0415
    from billing.services.invoicing import draft_invoice  # noqa: PLC0415
    from tenants.domain.actors import Actor, ActorKind  # noqa: PLC0415

    _ledger()
    rows = Decimal(HOURS * PODS)
    with measured() as plain:
        _sum_plainly()
    with measured() as accrual:
        _accrue()
    yield measurement("billing.accrued_rows_per_second", rows / accrual.seconds, "rows/s")
    yield ratio(
        "billing.accrual_to_plain_sum",
        accrual.seconds / plain.seconds,
        Bound.AT_MOST,
        ACCRUAL_TO_SUM_MAX,
    )
    period = BillingPeriod.objects.get(label="2026-10")
    terms = invoice_terms()
    first, second = (Actor(ActorKind.PERSON, id=name, label=name) for name in ("a", "b"))
    with measured() as invoicing:
        draft = draft_invoice(period_id=period.pk, actor=first, at=AT, terms=terms)
        final = finalize_invoice(invoice_id=draft.pk, actor=second, at=AT, terms=terms)
    assert final.unit_seconds == 3600 * HOURS * sum(1 + pod % 4 for pod in range(1, PODS + 1))
    yield measurement("billing.draft_and_finalize", invoicing.seconds, "s")
    yield ratio(
        "billing.draft_and_finalize_to_plain_sum",
        invoicing.seconds / plain.seconds,
        Bound.AT_MOST,
        INVOICE_TO_SUM_MAX,
    )


def _ledger() -> None:
    """Make one organization with a price and a month of sealed usage."""
    from django.db import connection  # noqa: PLC0415 - Django is set up by now.

    from billing.services.pricing.assignments import (  # noqa: PLC0415
        assign_price_book,
    )
    from billing.services.pricing.prices import (  # noqa: PLC0415
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
    from tests.support.metering.usage_rows import insert_usage  # noqa: PLC0415

    actor, at = system_actor("bench"), MONTH_START
    organization = create_organization(
        slug="bench", name="Bench", billing_currency="EUR", actor=actor, at=at
    )
    project = create_project(
        organization=organization, slug="bench", name="Bench", actor=actor, at=at
    )
    cluster = register_cluster(
        slug="bench", name="Bench", metered_from=MONTH_START, actor=actor, at=at
    )
    book = create_price_book(slug="b", name="B", currency="EUR", actor=actor, at=at)
    set_price(
        price_book=book,
        size="large",
        unit_price=Decimal("2.5"),
        valid_from=MONTH_START,
        actor=actor,
        at=at,
    )
    assign_price_book(
        organization=organization, price_book=book, valid_from=MONTH_START, actor=actor, at=at
    )
    ensure_catalogue(actor=actor, at=at)
    ensure_partitions(from_month=MONTH_START, months=1)
    values: dict[str, Any] = {
        "begin": MONTH_START,
        "hours": HOURS,
        "pods": PODS,
        "cluster": cluster.pk,
    }
    values |= {"organization": organization.pk, "project": project.pk}
    with connection.cursor() as cursor:
        cursor.execute(_WINDOWS, values)
        insert_usage(cursor, _USAGE, values)
        cursor.execute(_SEAL, values)
        cursor.execute("ANALYZE")


def _sum_plainly() -> None:
    from django.db import connection  # noqa: PLC0415 - Django is set up by now.

    with connection.cursor() as cursor:
        cursor.execute(_PLAIN_SUM)


def _accrue() -> None:
    from billing.selectors.pending import pending_window_ids  # noqa: PLC0415 - As above.
    from billing.services.accrual import accrue_windows  # noqa: PLC0415
    from tenants.domain.actors import system_actor  # noqa: PLC0415

    while windows := pending_window_ids(limit=BATCH):
        accrue_windows(window_ids=windows, actor=system_actor("bench"), at=AT)
