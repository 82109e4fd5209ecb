"""What benches of billing measure on: organizations on one cluster, and hours of sealed usage."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

MONTH_START: Final = datetime(2026, 10, 1, tzinfo=UTC)
ROWS_AT_ONCE: Final = 200_000
"""They are inserted within the statement timeout."""
NONE: Final = -1
"""No organization is without a price."""
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
SELECT w.id AS window_id, w.start_at AS window_start, w.cluster_id,
       (%(organizations)s::uuid[])[1 + pod %% %(count)s] AS organization_id,
       (%(projects)s::uuid[])[1 + pod %% %(count)s] AS project_id,
       'user' || pod %% %(people)s AS owner, 'ns' AS namespace, 'pod-' || pod AS pod_name,
       'uid-' || pod AS pod_uid, 'nvidia_com_gpu' AS resource, 'node' AS node,
       CASE WHEN pod %% %(count)s = %(unpriced)s THEN 'small' ELSE 'large' END AS size,
       'H100/whole' AS price_group, 'whole' AS sharing_mode, 1 AS share_numerator,
       1 AS share_denominator, 1 AS units, w.start_at AS begin_at,
       w.start_at + interval '1 hour' AS end_at, 3600 AS unit_seconds, 'open' AS end_kind,
       1 AS catalogue_version
  FROM metering_meteringwindow w CROSS JOIN generate_series(1, %(pods)s) AS pod
 WHERE w.state = 'collected'
"""
_SEAL = """
UPDATE metering_meteringwindow SET state = 'sealed', sealed_at = start_at + interval '2 hours'
 WHERE state = 'collected'
"""


def make_stage(organizations: int, *, bound_hours: int) -> dict[str, Any]:
    """Make organizations on one cluster, each with a project and a namespace bound for hours."""
    from billing.services.pricing.assignments import (  # noqa: PLC0415
        assign_price_book,
    )
    from billing.services.pricing.prices import (  # noqa: PLC0415 - Django is set up by now.
        create_price_book,
        set_price,
    )
    from metering.services.catalogue import ensure_catalogue  # noqa: PLC0415
    from metering.services.collection.windows import ensure_partitions  # noqa: PLC0415
    from tenants.domain.actors import system_actor  # noqa: PLC0415
    from tenants.services.clusters import register_cluster  # noqa: PLC0415
    from tenants.services.namespaces import bind_namespace  # noqa: PLC0415
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
    cluster = register_cluster(slug="bench", name="Bench", metered_from=MONTH_START, **made)
    owners, projects = [], []
    for number in range(organizations):
        slug = f"o{number}"
        owner = create_organization(slug=slug, name=slug, billing_currency="EUR", **made)
        assign_price_book(organization=owner, price_book=book, valid_from=MONTH_START, **made)
        project = create_project(organization=owner, slug="p", name="P", **made)
        bind_namespace(
            cluster=cluster,
            namespace=slug,
            project=project,
            valid_from=MONTH_START,
            valid_until=MONTH_START + timedelta(hours=bound_hours),
            **made,
        )
        projects.append(project.pk)
        owners.append(owner.pk)
    ensure_catalogue(**made)
    ensure_partitions(from_month=MONTH_START, months=1)
    return {
        "cluster": cluster.pk,
        "organizations": owners,
        "projects": projects,
        "count": organizations,
    }


def meter(
    stage: dict[str, Any],
    *,
    begin: datetime,
    hours: int,
    pods: int,
    people: int | None = None,
    unpriced: int = NONE,
) -> None:
    """Seal hours of usage, divided evenly over the organizations; one may lack its price.

    Each pod is of a person of its own, unless there are fewer.
    """
    from django.db import connection  # noqa: PLC0415 - Django is set up by now.

    from tests.support.metering.usage_rows import insert_usage  # noqa: PLC0415

    at_once = max(1, ROWS_AT_ONCE // pods)
    for first in range(0, hours, at_once):
        values = {
            **stage,
            "begin": begin + timedelta(hours=first),
            "hours": min(at_once, hours - first),
            "pods": pods,
            "people": people or pods + 1,
            "unpriced": unpriced,
        }
        # Sealed hours are immutable, so insert the records before the seal.
        execute(_WINDOWS, values)
        with connection.cursor() as cursor:
            insert_usage(cursor, _USAGE, values)
        execute(_SEAL, values)
    if pods > stage["count"]:
        execute("ANALYZE metering_usagerecord, metering_usagefact", connection_name="owner")


def execute(
    statement: str, values: dict[str, Any] | None = None, *, connection_name: str = "default"
) -> None:
    """Run one statement."""
    from django.db import connections  # noqa: PLC0415 - Django is set up by now.

    with connections[connection_name].cursor() as cursor:
        cursor.execute(statement, values)
