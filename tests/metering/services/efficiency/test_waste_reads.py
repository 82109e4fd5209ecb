"""Deriving an hour reads the rows of its own pods, however many there were before them."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection

from embedded.postgres import OWNER, EmbeddedPostgres
from metering.models import WasteFinding
from tests.support.metering.plans import scans
from tests.support.metering.waste_world import IDLE, derive, make_waste_world

FORMER = 5_000
"""Pods and devices of former months; so many that a table of them is not read for one of them."""
ROWS_MAX = 10
TABLES = {
    "metering_usagefact",
    "metering_podallocation",
    "metering_deviceholder",
    "metering_devicefact",
    "metering_devicecoverage",
    "metering_wastefinding",
}
FACTS = """
INSERT INTO metering_usagefact (id, version, cluster_id, organization_id, project_id, owner,
  namespace, pod_name, pod_uid, resource, node, size, price_group, sharing_mode, share_numerator,
  share_denominator, units, catalogue_version)
SELECT id + n, 1, cluster_id, organization_id, project_id, owner, namespace, pod_name,
       'former-' || n, resource, node, size, price_group, sharing_mode, share_numerator,
       share_denominator, units, catalogue_version
  FROM metering_usagefact, generate_series(1, %(former)s) n
"""
ALLOCATIONS = """
INSERT INTO metering_podallocation (cluster_id, pod_uid, resource, namespace, pod_name, node, owner,
  priority_class, controller, source, units, size, price_group, sharing_mode, product,
  share_numerator, share_denominator, catalogue_version, begin_at, started_at, end_at,
  end_slack_seconds, end_kind, last_seen_at)
SELECT cluster_id, 'former-' || n, resource, namespace, pod_name, node, owner, priority_class,
       controller, source, units, size, price_group, sharing_mode, product, share_numerator,
       share_denominator, catalogue_version, begin_at, started_at, begin_at, 0, 'exact',
       last_seen_at
  FROM metering_podallocation, generate_series(1, %(former)s) n
"""
HOLDERS = """
INSERT INTO metering_deviceholder (attribution, namespace, pod_name, pod_uid, resource,
  organization_id, project_id, owner, size, price_group, sharing_mode)
SELECT attribution, namespace, pod_name, 'former-' || n, resource, organization_id, project_id,
       owner, size, price_group, sharing_mode
  FROM metering_deviceholder, generate_series(1, %(former)s) n
"""
DEVICES = """
INSERT INTO metering_devicefact (cluster_id, node, uuid, model, instance_id, instance_profile)
SELECT cluster_id, node, 'former-' || n, model, instance_id, instance_profile
  FROM metering_devicefact, generate_series(1, %(former)s) n
"""
COVERAGES = """
INSERT INTO metering_devicecoverage (busy, sm_active, tensor_active, dram_active, memory, power,
  energy, is_busy_uncertain)
SELECT n, n, n, n, n, n, n, false FROM generate_series(1, %(former)s) n
"""
FINDINGS = """
INSERT INTO metering_wastefinding (cluster_id, organization_id, project_id, owner, namespace,
  pod_name, pod_uid, resource, rule, from_at, until_at, units, size, price_group, suggested_units,
  suggested_size, suggested_price_group, held_unit_seconds, suggested_unit_seconds,
  wasted_unit_seconds, activity_ratio, memory_peak_mebibytes, state, reason, created_at)
SELECT cluster_id, organization_id, project_id, owner, namespace, pod_name, 'former-' || n,
       resource, rule, from_at, until_at, units, size, price_group, suggested_units,
       suggested_size, suggested_price_group, held_unit_seconds, suggested_unit_seconds,
       wasted_unit_seconds, activity_ratio, memory_peak_mebibytes, 'closed', reason, created_at
  FROM metering_wastefinding, generate_series(1, %(former)s) n
"""


def add_former(owner: psycopg.Connection[Any]) -> None:
    """Multiply the rows of the one pod that is there, and take their statistics."""
    for statement in (FACTS, ALLOCATIONS, HOLDERS, DEVICES, COVERAGES, FINDINGS):
        owner.execute(statement.encode(), {"former": FORMER})
    owner.execute(f"ANALYZE {', '.join(sorted(TABLES))}".encode())


@pytest.fixture
def owner(postgres: EmbeddedPostgres, committed_db: str) -> Iterator[psycopg.Connection[Any]]:
    """The owner of the tables, who takes their statistics."""
    with psycopg.connect(postgres.url(role=OWNER, database=committed_db), autocommit=True) as made:
        yield made


def test_rows_of_former_pods_are_not_read(owner: psycopg.Connection[Any]) -> None:
    world = make_waste_world()
    world.hold()
    for hour in range(3):
        world.hour(hour, IDLE)
    derive()
    add_former(owner)
    world.hour(3, IDLE)
    read: list[tuple[str, int]] = []

    def explain(execute: Callable[..., Any], sql: str, params: Any, *rest: Any) -> Any:  # noqa: ANN401 - Django's wrapper.
        if not ("INSERT" in sql or "UPDATE" in sql) and "metering_" in sql:
            with connection.connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN (ANALYZE, FORMAT json) {sql}", params)
                ((found,),) = cursor.fetchall()
            plan = json.loads(found) if isinstance(found, str) else found
            read.extend(scans(plan[0]["Plan"]))
        return execute(sql, params, *rest)

    with connection.execute_wrapper(explain):
        assert derive().findings == 1

    assert {table for table, _ in read} >= TABLES
    assert [(table, rows) for table, rows in read if table in TABLES and rows > ROWS_MAX] == []
    assert WasteFinding.objects.filter(state="open").get().held_unit_seconds == 4 * 3600
