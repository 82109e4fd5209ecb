"""`manage.py verify` over a million usage records and a million audit entries.

It is held against a plain read of the same rows by the same database: what recomputing costs, not
how fast the machine is. The larger run shows that memory does not grow with the rows.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

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

RECORDS: Final = scaled(1_000_000)
ENTRIES: Final = scaled(1_000_000)
RECORDS_AN_HOUR: Final = 1_400
READS_MAX: Final = "7.5"
"""A read only counts what is there; recomputing 40 parts of each row takes a multiple of that."""
GROWTH_MEBIBYTES_MAX: Final = 64
"""Of the process, over all batches but the first."""


def run() -> Iterator[Figure]:
    """Make the rows, verify them, and read them plainly."""
    with ledger_database():
        yield from _measure()


def _measure() -> Iterator[Figure]:
    _make_rows()
    with measured() as plain:
        _read_plainly()
    # In its own process: the peak of this one is that of creating the rows.
    child = subprocess.run(
        [sys.executable, "-c", "from bench.verify import verify_apart; verify_apart()"],
        check=True,
        capture_output=True,
        text=True,
    )
    result = json.loads(child.stdout.splitlines()[-1])
    seconds = Decimal(result["seconds"])
    yield measurement("verify.seconds", seconds, "s")
    yield ratio("verify.against_a_plain_read", seconds / plain.seconds, Bound.AT_MOST, READS_MAX)
    yield invariant(
        "verify.memory_growth", result["growth"], "MiB", GROWTH_MEBIBYTES_MAX, Bound.AT_MOST
    )
    yield invariant("verify.differences", result["differences"], "rows", 0)
    yield invariant("verify.records", result["counts"]["sealed windows"], "rows", RECORDS)
    entries = result["counts"]["audit entries"]
    yield invariant("verify.entries", entries, "rows", ENTRIES, Bound.AT_LEAST)
    yield from row_sizes("tenants_auditentry")


def verify_apart() -> None:
    """Run every check and print, as JSON, its duration and result."""
    import django  # noqa: PLC0415 - In the child, settings are in the environment.

    django.setup()
    from config.verification import checks  # noqa: PLC0415 - Django is set up by now.
    from tenants.domain.actors import system_actor  # noqa: PLC0415 - As above.
    from tenants.selectors.clock import database_now  # noqa: PLC0415
    from tenants.selectors.verification import first_audit_cursor  # noqa: PLC0415
    from tenants.services.verification import begin_verification, verify_batch  # noqa: PLC0415

    known, actor = checks(), system_actor("bench")
    begun = begin_verification(checks=known, cursor=first_audit_cursor(), at=database_now())
    verify_batch(run=begun, checks=known, actor=actor, at=database_now())
    before = _peak_mebibytes()
    with measured() as verifying:
        while begun.check_name:
            verify_batch(run=begun, checks=known, actor=actor, at=database_now())
    result = {
        "seconds": str(verifying.seconds),
        "growth": _peak_mebibytes() - before,
        "differences": begun.difference_count,
        "counts": begun.counts,
    }
    sys.stdout.write(json.dumps(result) + "\n")


def _peak_mebibytes() -> int:
    """Return the most memory that this process had; getrusage would include its parent's."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def _make_rows() -> None:
    """Make sealed hours by the service's own seal, and audit entries beside those."""
    from datetime import UTC, datetime, timedelta  # noqa: PLC0415 - Beside Django's.

    from django.db import connection, transaction  # noqa: PLC0415 - As above.

    from metering.models import CatalogueVersion, MeteringWindow  # noqa: PLC0415
    from metering.services.collection.sealing import seal_window  # noqa: PLC0415
    from tenants.domain.actors import system_actor  # noqa: PLC0415
    from tenants.models import Cluster, Organization, Project  # noqa: PLC0415
    from tests.support.metering.usage_rows import insert_usage  # noqa: PLC0415

    at = datetime(2026, 10, 1, tzinfo=UTC)
    cluster = Cluster.objects.create(slug="hopper", name="H", metered_from=at, created_at=at)
    payer = Organization.objects.create(slug="a", name="A", billing_currency="EUR", created_at=at)
    project = Project.objects.create(organization=payer, slug="llm", name="L", created_at=at)
    CatalogueVersion.objects.get_or_create(
        version=1, defaults={"rules": [], "digest": "", "created_at": at}
    )
    hours, rest = divmod(RECORDS, RECORDS_AN_HOUR)
    with connection.cursor() as cursor:
        cursor.execute("SELECT metering_ensure_partitions(%s, 2)", [at])
    for number in range(hours + bool(rest)):
        window = MeteringWindow.objects.create(
            cluster=cluster,
            start_at=at + timedelta(hours=number),
            state="reconciled",
            not_before=at,
            as_of=at,
        )
        given: dict[str, Any] = {
            "window": window.pk,
            "start": window.start_at,
            "cluster": cluster.pk,
            "organization": payer.pk,
            "project": project.pk,
            "records": rest if number == hours else RECORDS_AN_HOUR,
        }
        with transaction.atomic(), connection.cursor() as cursor:
            insert_usage(cursor, _USAGE, given)
        seal_window(window_id=window.pk, actor=system_actor("bench"), at=at)
    with connection.cursor() as cursor:
        for first in range(0, ENTRIES, 50_000):
            cursor.execute(_AUDIT, [min(50_000, ENTRIES - first)])


def _read_plainly() -> None:
    """Read every column of every row once, as text and without recomputing anything."""
    from django.db import connection  # noqa: PLC0415 - Django is set up by now.

    with connection.cursor() as cursor:
        cursor.execute("SELECT sum(length(u::text)) FROM metering_usage u")
        cursor.execute("SELECT sum(length(e::text)) FROM tenants_auditentry e")


_USAGE: Final = """
SELECT %(window)s AS window_id, %(start)s AS window_start, %(cluster)s AS cluster_id,
       %(organization)s AS organization_id, %(project)s AS project_id, 'carol' AS owner,
       'llm' AS namespace, 'train-' || n AS pod_name,
       md5(%(window)s / 24 || ' ' || n)::uuid::text AS pod_uid, 'nvidia_com_gpu' AS resource,
       'node-' || n / 8 AS node, 'small' AS size, 'H100/1g.10gb' AS price_group,
       'whole' AS sharing_mode, 1 AS share_numerator, 1 AS share_denominator, 1 AS units,
       %(start)s AS begin_at, %(start)s::timestamptz + interval '1 hour' AS end_at,
       3600 AS unit_seconds, 'running' AS end_kind, 1 AS catalogue_version
  FROM generate_series(1, %(records)s) n
"""
_AUDIT: Final = """
INSERT INTO tenants_auditentry (occurred_at, actor_kind, actor_id, actor_label, action, object_kind,
  object_id, organization_id, facts)
SELECT clock_timestamp(), 'person', n::text, 'frank', 'quotas:limit:update', 'quota_limit',
       gen_random_uuid()::text, NULL, jsonb_build_object('changed', jsonb_build_object(
         'limit_units', jsonb_build_array(n, n + 1)))
  FROM generate_series(1, %s) n
"""
