"""Waste of 10,000 pods over a week: seconds to derive one hour, beside a plain sum of its rows.

Each pod holds one GPU for seven days, and every hour of it is sealed and measured: 1.68 million
rows of usage and as many of devices. The first hour of a day looks back over the whole week, the
others over what hourly rules ask for. A tenth of the pods is idle, a tenth little used and three
tenths hold more than they need, so that findings are written too.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from bench.harness import (
    Bound,
    Figure,
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
DAILY_RATIO_MAX: Final = 10
"""Against a plain sum over the same rows: percentiles want them sorted twice, findings written."""
HOURLY_RATIO_MAX: Final = 80
"""As above; of few rows the sum costs next to nothing, and each of the pods is judged all the same.
"""

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
INSERT INTO metering_usagerecord (window_id, window_start, cluster_id, organization_id, project_id,
  owner, namespace, pod_name, pod_uid, resource, node, size, price_group, sharing_mode,
  share_numerator, share_denominator, units, begin_at, end_at, seconds, unit_seconds, end_kind,
  catalogue_version)
SELECT w.id, w.start_at, w.cluster_id, p.organization_id, p.id, '', a.namespace, a.pod_name,
       a.pod_uid, a.resource, a.node, a.size, a.price_group, a.sharing_mode, 1, 1, 1, w.start_at,
       w.start_at + interval '1 hour', 3600, 3600, 'open', a.catalogue_version
  FROM metering_meteringwindow w, metering_podallocation a, tenants_project p
 WHERE w.id = %(window)s AND p.id = %(project)s
"""
_DEVICES: Final = """
INSERT INTO metering_deviceusage (window_id, window_start, cluster_id, node, uuid, model,
  instance_id, instance_profile, attribution, namespace, pod_name, pod_uid, resource,
  organization_id, project_id, owner, size, price_group, sharing_mode, begin_at, end_at, seconds,
  busy_ratio, busy_coverage, is_busy_uncertain, sm_active_ratio, sm_active_coverage,
  memory_used_peak_mebibytes, memory_total_mebibytes, memory_coverage, power_mean_milliwatts,
  power_coverage)
SELECT w.id, w.start_at, w.cluster_id, a.node, 'GPU-' || a.pod_uid, 'NVIDIA H100 80GB HBM3', '', '',
       'exclusive', a.namespace, a.pod_name, a.pod_uid, a.resource, p.organization_id, p.id, '',
       a.size, a.price_group, a.sharing_mode, w.start_at, w.start_at + interval '1 hour', 3600,
       k.activity, 1, false, k.activity, 1, k.memory, 81559, 1,
       70000 + (k.activity * 500000)::integer, 1
  FROM metering_meteringwindow w
 CROSS JOIN metering_podallocation a
 CROSS JOIN LATERAL (SELECT a.id %% 10 AS kind, (a.id * 7 + w.id * 13) %% 100 AS step) s
 CROSS JOIN LATERAL (
   SELECT CASE WHEN s.kind = 0 THEN 0 WHEN s.kind = 1 THEN s.step * 0.001
               WHEN s.kind < 5 THEN 0.2 + s.step * 0.0005 ELSE 0.6 + s.step * 0.003 END AS activity,
          CASE WHEN s.kind = 0 THEN 4 WHEN s.kind < 5 THEN 7000 + s.step * 10
               ELSE 60000 + s.step * 100 END AS memory) k
  JOIN tenants_project p ON p.id = %(project)s
 WHERE w.id = %(window)s
"""
_SUM: Final = """
SELECT (SELECT sum(unit_seconds) FROM metering_usagerecord
         WHERE cluster_id = %(cluster)s AND window_start >= %(since)s),
       (SELECT sum(sm_active_ratio * seconds * sm_active_coverage) FROM metering_deviceusage
         WHERE cluster_id = %(cluster)s AND window_start >= %(since)s)
"""


def run() -> Iterator[Figure]:
    """Yield the figures of deriving waste."""
    with ledger_database():
        cluster, project = _tenant()
        _load(cluster=cluster, project=project)
        yield from _hour(cluster=cluster, project=project, number=0, name="daily")
        yield from _hour(cluster=cluster, project=project, number=1, name="hourly")
        _check()


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
        cursor.execute(_USAGE, given)
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
