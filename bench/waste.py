"""Waste of 10,000 pods over a week: seconds to derive one hour, beside a plain sum of its rows.

Each pod holds one GPU for seven days, and every hour of it is sealed and measured: 1.68 million
rows of usage and as many of devices. The first hour of a day looks back over the whole week, the
others over what hourly rules ask for. A tenth of the pods is idle, a tenth little used and three
tenths hold more than they need, so that findings are written too.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from bench.billing_stage import execute
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

MIDNIGHT: Final = datetime(2026, 10, 12, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
HOURS: Final = 168
PODS: Final = scaled(10_000)
GPUS_PER_NODE: Final = 8
DAILY_RATIO_MAX: Final = 14
"""Against a plain sum over the same rows: percentiles want them sorted twice, findings written."""
HOURLY_RATIO_MAX: Final = 70
"""As above; of few rows the sum costs next to nothing, and each of the pods is judged all the same.
"""

ROW_BYTES_MAX: Final = 160
"""Of a device's hour, with the part of each hour in the facts of a pod of a week."""

STAYING: Final = 7
"""One pod in as many is still there when the others have ended: 1,428."""
FORMER_PODS: Final = scaled(500_000)
"""Of former months: what their hours repeat is kept."""
BESIDE_FORMER_MAX: Final = "1.5"

_ALLOCATIONS: Final = """
INSERT INTO metering_podallocation (cluster_id, pod_uid, resource, namespace, pod_name, node, owner,
  priority_class, controller, source, units, size, price_group, sharing_mode, product,
  share_numerator, share_denominator, catalogue_version, begin_at, started_at,
  end_slack_seconds, end_kind, last_seen_at)
SELECT %(cluster)s, md5(n::text)::uuid::text, 'nvidia.com/gpu', 'llm', 'train-' || n,
       'gpu-' || n / %(per_node)s, '', '', 'Job/train', 'kubernetes', 1, 'large', 'H100/whole',
       'whole', 'NVIDIA-H100-80GB-HBM3', 1, 1, %(version)s, %(begin)s, %(begin)s, 0, 'open',
       %(begin)s
  FROM generate_series(0, %(pods)s - 1) AS n
"""
_USAGE: Final = """
SELECT w.id AS window_id, w.start_at AS window_start, w.cluster_id, p.organization_id,
       p.id AS project_id, '' AS owner, a.namespace, a.pod_name, a.pod_uid, a.resource, a.node,
       a.size, a.price_group, a.sharing_mode, 1 AS share_numerator, 1 AS share_denominator,
       1 AS units, w.start_at AS begin_at, w.start_at + interval '1 hour' AS end_at,
       3600 AS unit_seconds, 'open' AS end_kind, a.catalogue_version
  FROM metering_meteringwindow w, metering_podallocation a, tenants_project p
 WHERE w.id = %(window)s AND p.id = %(project)s AND a.end_at IS NULL
"""
_FACTS: Final = """
WITH device AS (
  INSERT INTO metering_devicefact (cluster_id, node, uuid, model, instance_id, instance_profile)
  SELECT cluster_id, node, 'GPU-' || pod_uid, 'NVIDIA H100 80GB HBM3', '', ''
    FROM metering_podallocation ORDER BY id),
holder AS (
  INSERT INTO metering_deviceholder (attribution, namespace, pod_name, pod_uid, resource,
    organization_id, project_id, owner, size, price_group, sharing_mode)
  SELECT 'exclusive', a.namespace, a.pod_name, a.pod_uid, a.resource, p.organization_id, p.id, '',
         a.size, a.price_group, a.sharing_mode
    FROM metering_podallocation a JOIN tenants_project p ON p.id = %(project)s ORDER BY a.id)
INSERT INTO metering_devicecoverage (busy, sm_active, tensor_active, dram_active, memory, power,
  energy, is_busy_uncertain)
VALUES (100000, 100000, 0, 0, 100000, 100000, 0, false)
"""
_DEVICES: Final = """
INSERT INTO metering_devicefigure (id, window_start, energy_millijoules, device_id, holder_id,
  coverage_id, begin_milliseconds, end_milliseconds, busy_millionths, sm_active_millionths,
  tensor_active_millionths, dram_active_millionths, memory_used_peak_mebibytes,
  memory_total_mebibytes, power_mean_milliwatts)
SELECT (w.id << 22) + row_number() OVER (ORDER BY a.id), w.start_at, 1620000000, d.id, h.id, 1, 0,
       3600000, k.activity * 1000000, k.activity * 1000000, 0, 0, k.memory, 81559,
       70000 + (k.activity * 500000)::integer
  FROM metering_meteringwindow w
 CROSS JOIN metering_podallocation a
  JOIN metering_devicefact d ON d.uuid = 'GPU-' || a.pod_uid
  JOIN metering_deviceholder h ON h.pod_uid = a.pod_uid
 CROSS JOIN LATERAL (SELECT a.id %% 10 AS kind, (a.id * 7 + w.id * 13) %% 100 AS step) s
 CROSS JOIN LATERAL (
   SELECT CASE WHEN s.kind = 0 THEN 0 WHEN s.kind = 1 THEN s.step * 0.001
               WHEN s.kind < 5 THEN 0.2 + s.step * 0.0005 ELSE 0.6 + s.step * 0.003 END AS activity,
          CASE WHEN s.kind = 0 THEN 4 WHEN s.kind < 5 THEN 7000 + s.step * 10
               ELSE 60000 + s.step * 100 END AS memory) k
 WHERE w.id = %(window)s AND a.end_at IS NULL ORDER BY a.id
"""
_END: Final = """
UPDATE metering_podallocation SET end_at = %(end)s, end_kind = 'exact'
 WHERE end_at IS NULL AND id %% %(staying)s <> 0
"""
_FORMER: Final = {
    "metering_usagefact": """
INSERT INTO metering_usagefact (id, version, cluster_id, organization_id, project_id, owner,
  namespace, pod_name, pod_uid, resource, node, size, price_group, sharing_mode, share_numerator,
  share_denominator, units, catalogue_version)
SELECT nextval('metering_usagefact_id_seq'), 1, cluster_id, organization_id, project_id, owner,
       namespace, pod_name, 'former-' || n, resource, node, size, price_group, sharing_mode,
       share_numerator, share_denominator, units, catalogue_version
  FROM (SELECT * FROM metering_usagefact LIMIT 1) one, generate_series(1, %(pods)s) n
""",
    "metering_podallocation": """
INSERT INTO metering_podallocation (cluster_id, pod_uid, resource, namespace, pod_name, node, owner,
  priority_class, controller, source, units, size, price_group, sharing_mode, product,
  share_numerator, share_denominator, catalogue_version, begin_at, started_at, end_at,
  end_slack_seconds, end_kind, last_seen_at)
SELECT cluster_id, 'former-' || n, resource, namespace, pod_name, node, owner, priority_class,
       controller, source, units, size, price_group, sharing_mode, product, share_numerator,
       share_denominator, catalogue_version, begin_at, started_at, begin_at + interval '1 hour', 0,
       'exact', last_seen_at
  FROM (SELECT * FROM metering_podallocation LIMIT 1) one, generate_series(1, %(pods)s) n
""",
    "metering_deviceholder": """
INSERT INTO metering_deviceholder (attribution, namespace, pod_name, pod_uid, resource,
  organization_id, project_id, owner, size, price_group, sharing_mode)
SELECT attribution, namespace, pod_name, 'former-' || n, resource, organization_id, project_id,
       owner, size, price_group, sharing_mode
  FROM (SELECT * FROM metering_deviceholder LIMIT 1) one, generate_series(1, %(pods)s) n
""",
}
_ROW_BYTES: Final = """
SELECT (SELECT sum(pg_total_relation_size(relid))
          FROM (SELECT relid FROM pg_partition_tree('metering_devicefigure')
                UNION ALL VALUES ('metering_devicefact'::regclass),
                  ('metering_deviceholder'), ('metering_devicecoverage')) tables),
       (SELECT count(*) FROM metering_devicefigure)
"""
_SUM: Final = """
SELECT (SELECT sum(unit_seconds) FROM metering_usage
         WHERE cluster_id = %(cluster)s AND window_start >= %(since)s),
       (SELECT sum(sm_active_ratio * seconds * sm_active_coverage) FROM metering_deviceusage
         WHERE cluster_id = %(cluster)s AND window_start >= %(since)s)
"""


def run() -> Iterator[Figure]:
    """Yield the figures of deriving waste."""
    with ledger_database():
        cluster, project = _tenant()
        _load(cluster=cluster, project=project)
        # As autovacuum does once it finds the rows.
        execute("VACUUM ANALYZE", connection_name="owner")
        yield _row_bytes()
        yield from _hour(cluster=cluster, project=project, number=0, name="daily")
        yield from _hour(cluster=cluster, project=project, number=1, name="hourly")
        _check()
        yield _beside_former_pods(cluster=cluster, project=project)


def _row_bytes() -> Figure:
    """Return the bytes of a device's hour with its indexes, and its part of the facts."""
    from django.db import connection  # noqa: PLC0415 - Django is set up by now.

    with connection.cursor() as cursor:
        cursor.execute(_ROW_BYTES)
        ((size, rows),) = cursor.fetchall()
    return invariant("row.device", Decimal(size) / rows, "B", ROW_BYTES_MAX, Bound.AT_MOST)


def _tenant() -> tuple[UUID, UUID]:
    """Return the keys of a cluster and a project, with the default catalogue in force."""
    from metering.services.catalogue import ensure_catalogue  # noqa: PLC0415 - Django is set up.
    from tenants.domain.actors import system_actor  # noqa: PLC0415
    from tenants.services.clusters import register_cluster  # noqa: PLC0415
    from tenants.services.organizations import (  # noqa: PLC0415
        create_organization,
        create_project,
    )

    who: dict[str, Any] = {"actor": system_actor("bench"), "at": MIDNIGHT}
    cluster = register_cluster(slug="big", name="Big", metered_from=MIDNIGHT, **who)
    organization = create_organization(slug="acme", name="Acme", billing_currency="EUR", **who)
    project = create_project(organization=organization, slug="llm", name="LLM", **who)
    ensure_catalogue(**who)
    return cluster.pk, project.pk


def _load(*, cluster: UUID, project: UUID) -> None:
    """Write a week that ends at the end of the first hour of a day, all but that hour derived."""
    from django.db import connection  # noqa: PLC0415 - Django is set up by now.

    from metering.domain.catalogue.sizing import DEFAULT_VERSION  # noqa: PLC0415
    from metering.models import ClusterHealth, MeteringWindow  # noqa: PLC0415

    begin = MIDNIGHT + HOUR - HOURS * HOUR
    with connection.cursor() as cursor:
        cursor.execute("SELECT metering_ensure_partitions(%s, 2)", [begin])
        cursor.execute(
            _ALLOCATIONS,
            {
                "cluster": cluster,
                "per_node": GPUS_PER_NODE,
                "pods": PODS,
                "version": DEFAULT_VERSION,
                "begin": begin,
            },
        )
        cursor.execute(_FACTS, {"project": project})
    for number in range(1 - HOURS, 0):
        window = _seal(cluster=cluster, project=project, number=number)
        ClusterHealth.objects.create(
            window=MeteringWindow(pk=window),
            window_start=MIDNIGHT + number * HOUR,
            cluster_id=cluster,
            nodes=PODS // GPUS_PER_NODE,
            created_at=MIDNIGHT,
        )


def _seal(*, cluster: UUID, project: UUID, number: int) -> int:
    """Write an hour of use and of devices, counted from midnight, and seal it."""
    from django.db import connection  # noqa: PLC0415 - Django is set up by now.

    from metering.models import MeteringWindow  # noqa: PLC0415
    from tests.support.metering.usage_rows import insert_usage  # noqa: PLC0415

    start_at = MIDNIGHT + number * HOUR
    window = MeteringWindow.objects.create(
        cluster_id=cluster,
        start_at=start_at,
        state="collected",
        not_before=start_at + HOUR,
        as_of=start_at + HOUR,
    )
    given: dict[str, Any] = {"window": window.pk, "project": project}
    with connection.cursor() as cursor:
        insert_usage(cursor, _USAGE, given)
        cursor.execute("SELECT metering_ensure_device_partition(%s)", [start_at])
        cursor.execute(_DEVICES, given)
    MeteringWindow.objects.filter(pk=window.pk).update(state="sealed", sealed_at=start_at + HOUR)
    return int(window.pk)


def _hour(*, cluster: UUID, project: UUID, number: int, name: str) -> Iterator[Figure]:
    """Derive one hour and sum the rows that it looks at; yield seconds and their ratio."""
    from metering.domain.efficiency.rules import DEFAULT_THRESHOLDS  # noqa: PLC0415 - As above.
    from metering.services.efficiency.deriving import derive_windows  # noqa: PLC0415
    from tenants.domain.actors import system_actor  # noqa: PLC0415

    _seal(cluster=cluster, project=project, number=number)
    end_at = MIDNIGHT + (number + 1) * HOUR
    is_daily = name == "daily"
    hours = HOURS if is_daily else DEFAULT_THRESHOLDS.low_use_hours
    plain = _plain_sum(cluster=cluster, since=end_at - hours * HOUR)
    with measured() as watch:
        derived = derive_windows(actor=system_actor("bench"), at=end_at)
    assert derived is not None and derived.windows == 1, derived  # noqa: PT018 - One question.
    ratio_max = DAILY_RATIO_MAX if is_daily else HOURLY_RATIO_MAX
    yield measurement(f"waste.{name}_seconds", watch.seconds, "s")
    yield ratio(f"waste.{name}_to_sum", watch.seconds / plain, Bound.AT_MOST, ratio_max)


def _beside_former_pods(*, cluster: UUID, project: UUID) -> Figure:
    """Return how much longer an hour of few pods takes once there were 500,000 before them."""
    execute(_END, {"end": MIDNIGHT + 2 * HOUR, "staying": STAYING}, connection_name="owner")
    execute("VACUUM ANALYZE metering_podallocation", connection_name="owner")
    alone = _shortest_hour(cluster=cluster, project=project, numbers=range(2, 7))
    for table, statement in _FORMER.items():
        # Their numbers and digests are not what is measured.
        execute(f"ALTER TABLE {table} DISABLE TRIGGER USER", connection_name="owner")
        execute(statement, {"pods": FORMER_PODS}, connection_name="owner")
        execute(f"ALTER TABLE {table} ENABLE TRIGGER USER", connection_name="owner")
        execute(f"VACUUM ANALYZE {table}", connection_name="owner")
    beside = _shortest_hour(cluster=cluster, project=project, numbers=range(7, 12))
    return ratio("waste.hour_beside_former_pods", beside / alone, Bound.AT_MOST, BESIDE_FORMER_MAX)


def _shortest_hour(*, cluster: UUID, project: UUID, numbers: Iterable[int]) -> Decimal:
    """Return the seconds that deriving one of some hours takes, the least of them."""
    from metering.services.efficiency.deriving import derive_windows  # noqa: PLC0415 - As above.
    from tenants.domain.actors import system_actor  # noqa: PLC0415

    seconds = []
    for number in numbers:
        _seal(cluster=cluster, project=project, number=number)
        with measured() as watch:
            derive_windows(actor=system_actor("bench"), at=MIDNIGHT + (number + 1) * HOUR)
        seconds.append(watch.seconds)
    return min(seconds)


def _plain_sum(*, cluster: UUID, since: datetime) -> Decimal:
    """Return the seconds of a sum over usage and devices from a time on; the better of two."""
    from django.db import connection  # noqa: PLC0415 - Django is set up by now.

    seconds = []
    for _ in range(2):
        with measured() as watch, connection.cursor() as cursor:
            cursor.execute(_SUM, {"cluster": cluster, "since": since})
            cursor.fetchone()
        seconds.append(watch.seconds)
    return min(seconds)


def _check() -> None:
    """Refuse figures of a bench that found something else than it wrote."""
    from metering.models import WasteFinding  # noqa: PLC0415 - Django is set up by now.

    rules = WasteFinding.objects.filter(state="open").values_list("rule", flat=True)
    found = {rule: list(rules).count(rule) for rule in sorted(set(rules))}
    assert found.get("idle") == PODS // 10, found
    assert sum(found.values()) == PODS // 2, found
