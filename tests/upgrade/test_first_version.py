"""A database of the first version, with a metered and invoiced month, migrated to this one.

`first_version.sql.gz` is a dump of that version: the end of October 2026 of the demo's world as
`tests/support/flows/metered_month.py` plays it with seed 7, and one set of rows of every list.
"""

import gzip
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from django.db import connection, connections
from django.test import Client

from billing.models import Charge, Invoice
from billing.tasks import accrue_pending
from embedded.postgres import EmbeddedPostgres, binary_folder
from embedded.postgres_data import SUPERUSER
from metering.models import MeteringWindow, UsageRecord
from metering.selectors.collection.verification import check_device_windows
from metering.services.collection import sealing
from metering.services.collection.sweeping import Worker, meter_due
from simulator.adapters.usage_source import SimulatedUsageSource
from simulator.cluster.demo_scenario import demo_scenario
from tenants.domain.actors import system_actor
from tenants.models import Cluster
from tenants.selectors.audit import leaf_mismatches
from tests.conftest import migrate
from tests.flows.test_month_equals_oracle import BROKEN, count
from tests.support.flows.metered_month import METERED_FROM, MONTH_OVER, NOW, OUTAGE

DUMP = Path(__file__).parent / "first_version.sql.gz"
LEDGERS = (
    "billing_accruedwindow",
    "billing_billingperiod",
    "billing_charge",
    "billing_invoice",
    "billing_invoiceline",
    "billing_price",
    "billing_pricebook",
    "metering_capacityrecord",
    "metering_deviceusage",
    "metering_meteringexception",
    "metering_meteringwindow",
    "metering_podallocation",
    "metering_usagecorrection",
    "metering_usagerecord",
    "quotas_quotagrant",
    "quotas_quotalimit",
    "quotas_quotarequest",
    "tenants_auditentry",
    "tenants_membership",
    "tenants_namespacebinding",
)
RENUMBERED = {"metering_deviceusage": ["id"]}
"""Columns that the migrations number anew; no table refers to them."""
INVOICED = [("contoso", "1249.0500"), ("fabrikam", "1069.6300"), ("northwind", "2788.4300")]
SEALED = 155
SPOILED = """
SELECT w.id FROM metering_meteringwindow w
 CROSS JOIN LATERAL ({lines}) d
 WHERE w.state = 'sealed' AND w.record_digest <> '' AND d.digest <> w.record_digest
"""


@dataclass(frozen=True)
class Upgraded:
    """A database after its migration, and what was counted in it before.

    Attributes:
        url: A superuser's.
        broken: By `BROKEN`; the rows of every list were made by hand and break some chains.
    """

    url: str
    broken: dict[str, int]


@pytest.fixture
def upgraded(committed_db: str, postgres: EmbeddedPostgres) -> Iterator[Upgraded]:
    """Restore the dump, keep a copy of its ledgers, and migrate it as a deployment does."""
    connections.close_all()
    superuser = postgres.url(role=SUPERUSER, database="postgres")
    with psycopg.connect(superuser, autocommit=True) as server:
        server.execute(f"DROP DATABASE {committed_db} WITH (FORCE)")
        postgres.create_database(server, committed_db)
    url = postgres.url(role=SUPERUSER, database=committed_db)
    psql = str(binary_folder() / "bin" / "psql")
    restored = ("-X", "-q", "-v", "ON_ERROR_STOP=1", "-o", os.devnull, "-d", url)
    with gzip.open(DUMP) as dump:
        subprocess.run([psql, *restored], input=dump.read(), check=True)
    with psycopg.connect(url, autocommit=True) as copying:
        copying.execute("CREATE SCHEMA before")
        for table in LEDGERS:
            copying.execute(f"CREATE TABLE before.{table} AS TABLE public.{table}")
    wide = {
        name: query.replace("metering_usage ", "metering_usagerecord ")
        for name, query in BROKEN.items()
    }
    broken = {name: count(query) for name, query in wide.items()}
    connections.close_all()
    migrate(postgres, committed_db)
    yield Upgraded(url, broken)
    connections.close_all()


@pytest.mark.soak
def test_a_database_of_the_first_version_keeps_its_ledgers_and_goes_on(upgraded: Upgraded) -> None:
    with psycopg.connect(upgraded.url) as superuser:
        assert {table: changed(superuser, table) for table in LEDGERS} == dict.fromkeys(LEDGERS, 0)
    assert invoiced() == INVOICED
    assert {name: count(query) for name, query in BROKEN.items()} == upgraded.broken
    assert leaf_mismatches() == []
    assert spoiled_windows() == []
    assert spoiled_device_figures() == ()
    assert Client().get("/readyz").json()["status"] == "ready"

    charges = Charge.objects.count()
    meter_two_hours_more()

    hours = MeteringWindow.objects.filter(cluster__slug__in=("hopper", "ampere"))
    assert set(hours.values_list("state", flat=True)) == {"sealed"}
    assert hours.count() == SEALED - 1 + 4
    assert UsageRecord.objects.filter(window_start__gte=NOW - timedelta(hours=1)).exists()
    assert Charge.objects.count() > charges
    assert invoiced() == INVOICED
    assert spoiled_windows() == []


def changed(superuser: psycopg.Connection, table: str) -> int:
    """Return how many rows of the copy are not there as they were, by the columns both have."""
    now = "metering_usage" if table == "metering_usagerecord" else table
    columns = superuser.execute(
        "SELECT string_agg(quote_ident(o.attname), ', ') FROM pg_attribute o JOIN pg_attribute n"
        " ON n.attname = o.attname AND n.attrelid = ('public.' || %(now)s)::regclass"
        "  AND n.attnum > 0 AND NOT n.attisdropped AND n.atttypid = o.atttypid"
        " WHERE o.attrelid = ('before.' || %(table)s)::regclass AND o.attnum > 0"
        "   AND o.attname <> ALL(%(renumbered)s)",
        {"table": table, "now": now, "renumbered": RENUMBERED.get(table, [])},
    ).fetchone()
    assert columns is not None
    (names,) = columns
    found = superuser.execute(
        f"SELECT count(*) FROM (SELECT {names} FROM before.{table}"  # noqa: S608 - Names of ours.
        f" EXCEPT ALL SELECT {names} FROM public.{now}) missing"
    ).fetchone()
    assert found is not None
    return int(found[0])


def invoiced() -> list[tuple[str, str]]:
    """Return organization and total of every final invoice."""
    rows = Invoice.objects.filter(state="final").order_by("organization__slug")
    return [(slug, str(total)) for slug, total in rows.values_list("organization__slug", "total")]


def spoiled_windows() -> list[int]:
    """Return the sealed windows whose records have another digest than when they were sealed."""
    lines = sealing._SEAL.split("FROM (", 1)[1].rsplit(") d", 1)[0]  # noqa: SLF001 - Its own statement.
    lines = lines.replace("%(start_at)s", "w.start_at").replace("%(window_id)s", "w.id")
    with connection.cursor() as cursor:
        cursor.execute(SPOILED.format(lines=lines))
        return [window_id for (window_id,) in cursor.fetchall()]


def spoiled_device_figures() -> tuple[str, ...]:
    """Return what `verify` says of all sealed device figures."""
    found: tuple[str, ...] = ()
    batch = check_device_windows({})
    while True:
        found += batch.differences
        if batch.is_last:
            return found
        batch = check_device_windows(batch.cursor or {})


def meter_two_hours_more() -> None:
    """Meter and price what is due two hours later."""
    at = NOW + timedelta(hours=2)
    scenario = demo_scenario(7, METERED_FROM, MONTH_OVER + timedelta(days=1), outages=(OUTAGE,))
    tick = system_actor("metering.tick")
    source = SimulatedUsageSource(scenario=scenario)
    # The world has two clusters; the third belongs to the rows of every list.
    Cluster.objects.filter(slug="cluster-1").update(state="closed")
    assert meter_due(worker=Worker(name="w", source=source, actor=tick), at=at).failed == 0
    accrue_pending(at=at, actor=system_actor("billing.tick"))
