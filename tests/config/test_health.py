"""Health: alive without anybody, ready only with everything that must hold."""

import time
from collections.abc import Callable

import psycopg
import pytest
from django.db import connection, connections
from django.test import Client

from config.monitoring import health

SCHEMA_OF_LEDGERS = (
    "SELECT tgname FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid"
    " WHERE NOT tgisinternal AND NOT relispartition"
)


def ask(path: str = "/readyz") -> tuple[int, dict[str, object]]:
    response = Client().get(path)
    return response.status_code, response.json()


def cpu_seconds(ask: Callable[[], object]) -> float:
    """Return the least of five, after one that fills caches."""
    ask()
    costs = []
    for _ in range(5):
        begin = time.process_time()
        ask()
        costs.append(time.process_time() - begin)
    return min(costs)


def test_alive_needs_no_database() -> None:
    assert ask("/healthz") == (200, {"status": "alive"})


@pytest.mark.django_db
def test_ready_when_all_holds_though_the_broker_is_silent() -> None:
    status, body = ask()

    assert status == 200
    assert body == {
        "status": "ready",
        "checks": {
            "clock": "ok",
            "database_role": "ok",
            "timeouts": "ok",
            "functions": "ok",
            "migrations": "ok",
            "ledger_triggers": "ok",
        },
        "broker": "The broker does not answer; sweeps without it do its work, later.",
        "workers": "Unknown while the broker does not answer.",
        "clocks": [],
        "verification": "The database was never verified.",
        "proxies": "ok",
    }


@pytest.mark.soak
@pytest.mark.django_db
def test_readiness_costs_at_most_20_ms_of_cpu() -> None:
    assert cpu_seconds(lambda: Client().get("/readyz")) <= 0.02


def test_a_queue_that_no_worker_serves_is_named() -> None:
    served = {"celery": 0, "metering": 300, "short": 12}

    assert health.worker_problem(served) == ""
    assert health.worker_problem({**served, "metering": 301, "short": None}) == (
        "No worker has served metering, short for 300 s or since the broker was emptied;"
        " what is due waits."
    )


@pytest.mark.django_db
def test_no_probe_may_be_kept_by_a_cache() -> None:
    for path in ("/healthz", "/readyz"):
        assert "no-store" in Client().get(path)["Cache-Control"]
        assert Client().post(path).status_code == 405


@pytest.mark.django_db
def test_the_table_of_frozen_ledgers_is_complete() -> None:
    with connection.cursor() as cursor:
        cursor.execute(SCHEMA_OF_LEDGERS)
        found = {row[0] for row in cursor.fetchall()}

    assert health.required_triggers() == found


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (
            "ALTER TABLE billing_invoice DISABLE TRIGGER billing_invoice_refuses_update",
            (
                "Ledger triggers are not ENABLE ALWAYS: billing_invoice_refuses_update."
                " Find out who did it."
            ),
        ),
        (
            "ALTER TABLE tenants_auditentry ENABLE TRIGGER tenants_auditentry_leaf",
            "Ledger triggers are not ENABLE ALWAYS: tenants_auditentry_leaf. Find out who did it.",
        ),
        (
            "DROP TRIGGER billing_charge_refuses_delete ON billing_charge",
            "Ledger triggers are missing: billing_charge_refuses_delete. Run the migrations.",
        ),
    ],
)
def test_a_ledger_that_is_not_frozen_is_not_ready(
    superuser_url: str, statement: str, sentence: str
) -> None:
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute(statement.encode())

    status, body = ask()

    assert status == 503
    assert body["status"] == "not_ready"
    assert body["checks"] == {
        "clock": "ok",
        "database_role": "ok",
        "timeouts": "ok",
        "functions": "ok",
        "migrations": "ok",
        "ledger_triggers": sentence,
    }


def test_a_weak_trigger_on_one_partition_is_found(superuser_url: str) -> None:
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute("SELECT metering_ensure_partitions('2026-10-01Z', 1)")
        superuser.execute(
            "ALTER TABLE metering_usagerecord_2026_10"
            " DISABLE TRIGGER metering_usagerecord_2026_10_truncate"
        )

    assert health.trigger_problem() == (
        "Ledger triggers are not ENABLE ALWAYS: metering_usagerecord_2026_10_truncate."
        " Find out who did it."
    )


def test_a_timeout_that_is_not_in_force_is_not_ready(superuser_url: str, committed_db: str) -> None:
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute(
            f"ALTER ROLE gpu_ledger_app IN DATABASE {committed_db} SET lock_timeout = 0"
        )
    connections.close_all()

    status, body = ask()

    assert status == 503
    assert health.timeout_problem() == (
        "A lock or a statement may last for ever here."
        " Run: ALTER ROLE gpu_ledger_app SET lock_timeout = '2s';"
    )
    assert body["status"] == "not_ready"


def test_a_function_that_may_not_be_called_is_not_ready(superuser_url: str) -> None:
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute(f"REVOKE EXECUTE ON FUNCTION {health.FUNCTION} FROM gpu_ledger_runtime")

    assert ask()[0] == 503
    assert health.function_problem() == (
        f"The runtime role may not call {health.FUNCTION}, or it is missing."
    )


def test_an_unapplied_migration_is_named(superuser_url: str) -> None:
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute(
            "DELETE FROM django_migrations WHERE app = 'billing' AND name = '0003_triggers'"
        )

    problem = health.migration_problem()

    assert problem == "Migrations are not applied: billing.0003_triggers."


def test_a_role_that_owns_tables_is_not_ready(superuser_url: str) -> None:
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute("CREATE TABLE mine (n int)")
        superuser.execute("ALTER TABLE mine OWNER TO gpu_ledger_app")

    assert health.role_problem() == (
        "DATABASE_URL names a role that owns tables and could unfreeze ledgers."
    )


def test_a_temporary_table_of_another_session_is_no_ledger(superuser_url: str) -> None:
    with psycopg.connect(superuser_url, autocommit=True) as session:
        session.execute("SET ROLE gpu_ledger_app")
        session.execute("CREATE TEMPORARY TABLE stage (n int)")

        assert health.role_problem() == ""


def test_a_database_that_is_gone_is_reported_without_its_address(committed_db: str) -> None:
    connections["default"].close()
    connections["default"].settings_dict["PORT"] = "1"

    status, body = ask()

    assert status == 503
    assert "OperationalError" in str(body["checks"])
    assert committed_db not in str(body)
