"""Checks of PostgreSQL: version, role, schema, triggers, timeouts, clocks, and a pooler."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import psycopg
from django.conf import settings
from django.db import connection
from django.utils import timezone

from config.doctor.findings import CheckResult, listed, ok, problem, warning
from config.monitoring.health import (
    function_problem,
    known_migrations,
    migration_problem,
    required_triggers,
    role_problem,
    timeout_problem,
    trigger_problem,
)
from config.verification import checks as verification_checks
from config.verification import object_check
from tenants.selectors.clock import clocks_off, offset_sentence, read_clock
from tenants.selectors.database_objects import RUNTIME_ROLE
from tenants.selectors.report_database import ReplicaAwayError, has_replica, replica_state
from tenants.selectors.verification import verification_sentence
from tenants.services.clock import REFUSED_SECONDS, REPORTED_SECONDS

PAGE: Final = "docs/how-to/install.md"
VERIFY_PAGE: Final = "docs/how-to/verify.md"
REPLICA_PAGE: Final = "docs/how-to/run-on-several-hosts.md#read-reports-from-a-replica"
POOLER_PAGE: Final = "docs/how-to/install.md#with-pgbouncer"
VERSION_MIN: Final = 15
CONNECT_SECONDS_MAX: Final = 5
PROBES: Final = 8
"""Questions to each of two connections: more than a pool that is served in rotation opens first."""


def check_server() -> Iterator[CheckResult]:
    """Yield whether the server answers, and its version."""
    try:
        with _connect() as found:
            version = found.info.server_version
            row = found.execute("SELECT pg_database_size(current_database())").fetchone()
    except psycopg.Error as error:
        yield problem(
            "database",
            f"PostgreSQL does not answer ({type(error).__name__}).",
            "Start it, and check host, port, name and password in DATABASE_URL.",
            PAGE,
        )
        return
    text = f"{version // 10_000}.{version % 10_000}"
    if version < VERSION_MIN * 10_000:
        yield problem(
            "database",
            f"PostgreSQL {text} answers; {VERSION_MIN} is the oldest that works.",
            f"Upgrade the server to {VERSION_MIN} or later; 18 is tested.",
            PAGE,
        )
        return
    size = int(row[0]) if row else 0
    yield ok("database", f"PostgreSQL {text} answers; the database has {size / 2**20:,.0f} MiB.")


def can_connect() -> bool:
    """Whether the database answers within seconds."""
    try:
        with _connect():
            return True
    except psycopg.Error:
        return False


def has_tables() -> bool:
    """Whether any migration is applied."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('django_migrations') IS NOT NULL")
        (is_there,) = cursor.fetchone()
    return bool(is_there)


def is_migrated() -> bool:
    """Whether every migration is applied."""
    return has_tables() and not migration_problem()


def check_migrations() -> Iterator[CheckResult]:
    """Yield whether all migrations are applied."""
    if found := migration_problem() if has_tables() else "No migration is applied.":
        yield problem(
            "migrations", found, "Run `manage.py migrate --database owner` as the owner.", PAGE
        )
        return
    yield ok("migrations", f"All {len(known_migrations())} migrations are applied.")


def check_role() -> Iterator[CheckResult]:
    """Yield whether the service's role owns nothing, and may call what it has to."""
    if found := role_problem() or function_problem():
        yield problem(
            "role", found, "Run deploy/postgres/roles.sql, and name gpu_ledger_app's URL.", PAGE
        )
        return
    yield ok("role", f"The service is a member of {RUNTIME_ROLE} and owns no table.")


def check_triggers() -> Iterator[CheckResult]:
    """Yield whether every trigger that freezes a ledger is in force."""
    if found := trigger_problem():
        yield problem(
            "triggers",
            found,
            "Restore them as the owner, and run `manage.py verify`: rows may have been changed.",
            VERIFY_PAGE,
        )
        return
    yield ok("triggers", f"All {len(required_triggers())} triggers that freeze ledgers are active.")


def check_objects() -> Iterator[CheckResult]:
    """Yield whether functions, constraints, privileges and partitions are those of this version."""
    batch = object_check()({})
    if batch.differences:
        yield problem(
            "objects",
            "Objects of the database that differ from this version's:"
            f" {len(batch.differences)}. {batch.differences[0]}",
            "Find out who changed them; `manage.py verify` lists all.",
            VERIFY_PAGE,
        )
        return
    yield ok(
        "objects",
        f"{batch.count:,} functions, constraints, privileges and others are this version's.",
    )


def check_timeouts() -> Iterator[CheckResult]:
    """Yield whether locks and statements end by themselves."""
    found = timeout_problem()
    if found:
        sentence, _, commands = found.partition(" Run: ")
        yield problem("timeouts", sentence, f"As a superuser run: {commands}", PAGE)
        return
    yield ok("timeouts", "Locks, statements and idle transactions end by themselves.")


def check_clocks() -> Iterator[CheckResult]:
    """Yield whether this process and the others keep the database's time."""
    offset = read_clock(timezone.now).offset_seconds
    others = clocks_off()
    remedy = "Let NTP keep the clocks of all hosts; beyond 300 s a process does no work."
    if abs(offset) > REPORTED_SECONDS:
        state = problem if abs(offset) > REFUSED_SECONDS else warning
        yield state("clocks", f"This process: {offset_sentence(offset)}", remedy, PAGE)
    if others:
        names = [f"{name} by {seconds} s" for name, seconds in others.items()]
        yield problem("clocks", f"Processes that are off: {listed(names)}.", remedy, PAGE)
    if abs(offset) <= REPORTED_SECONDS and not others:
        yield ok("clocks", f"This process and the database differ by {abs(offset)} s.")


def check_verification() -> Iterator[CheckResult]:
    """Yield what the last verification of the sealed data found."""
    found = verification_sentence(checks=list(verification_checks()), at=timezone.now())
    if found:
        yield warning(
            "verification", found, "Run `manage.py verify`, or let beat start it.", VERIFY_PAGE
        )
        return
    yield ok("verification", "The last verification of sealed data found no difference.")


def check_partitions(*, at: datetime) -> Iterator[CheckResult]:
    """Yield whether next month's usage can be stored."""
    name = f"metering_usagerecord_{at.replace(day=1) + timedelta(days=31):%Y_%m}"
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [name])
        (is_there,) = cursor.fetchone()
    if is_there:
        yield ok("partitions", f"The partitions of next month are there ({name}).")
        return
    yield warning(
        "partitions",
        f"{name} is missing: usage of next month cannot be stored.",
        "Start a worker and beat, which make partitions hourly, or run `manage.py tick --once`.",
        "docs/reference/commands.md",
    )


def check_replica() -> Iterator[CheckResult]:
    """Yield whether reports can be read from the replica, where one is named."""
    if not has_replica():
        yield ok("replica", "No replica is named; reports are read from the primary.")
        return
    try:
        lag_seconds = int(replica_state().lag.total_seconds())
    except ReplicaAwayError as error:
        yield warning(
            "replica",
            f"The replica cannot be read: {error} Reports are read from the primary.",
            "Check DATABASE_REPLICA_URL, that the server is in recovery, and pg_stat_replication.",
            REPLICA_PAGE,
        )
        return
    if lag_seconds > settings.REPLICA_LAG_SECONDS_MAX:
        yield warning(
            "replica",
            f"The replica is {lag_seconds} s behind. Reports are read from the primary.",
            "Look at pg_stat_replication and at what conflicts with replay, or raise"
            " REPLICA_LAG_SECONDS_MAX.",
            REPLICA_PAGE,
        )
        return
    yield ok("replica", f"The replica is {lag_seconds} s behind; reports are read from it.")


def check_pooler() -> Iterator[CheckResult]:
    """Yield whether a pooler is between, in which mode, and what does not work through it."""
    try:
        with _connect() as first, _connect() as second:
            seen = [{_backend_of(one) for _ in range(PROBES)} for one in (first, second)]
            is_direct = all(
                backends == {one.info.backend_pid}
                for one, backends in zip((first, second), seen, strict=True)
            )
            has_transactions = is_direct or _has_transactions(first)
    except psycopg.Error as error:
        yield problem(
            "pooler",
            f"A second connection is refused ({type(error).__name__}).",
            "Raise max_connections, or the pool's size.",
            POOLER_PAGE,
        )
        return
    if is_direct:
        yield ok("pooler", "DATABASE_URL names PostgreSQL itself; no pooler is between.")
    elif not has_transactions:
        yield problem(
            "pooler",
            "A pooler in statement mode is between: no transaction works.",
            "Write pool_mode = transaction into pgbouncer.ini.",
            POOLER_PAGE,
        )
    elif seen[0] & seen[1] or len(seen[0]) > 1:
        yield ok(
            "pooler",
            "A pooler in transaction mode is between; only migrations cannot go through it:"
            " DATABASE_OWNER_URL names PostgreSQL itself.",
        )
    else:
        yield warning(
            "pooler",
            "A pooler in session mode is between: each thread and process keeps a connection of"
            " its pool, and waits when none is left.",
            "Write pool_mode = transaction into pgbouncer.ini, or make the pool as large.",
            POOLER_PAGE,
        )


def _connect() -> psycopg.Connection[Any]:
    """Return a connection of its own, as Django makes them, but soon refused."""
    parameters = connection.get_connection_params()
    for name in ("cursor_factory", "context", "prepare_threshold"):
        parameters.pop(name, None)
    parameters["connect_timeout"] = CONNECT_SECONDS_MAX
    return psycopg.connect(**parameters, autocommit=True, prepare_threshold=None)


def _backend_of(one: psycopg.Connection[Any]) -> int:
    """Return which server process answers; a pooler gives clients another number."""
    row = one.execute("SELECT pg_backend_pid()").fetchone()
    return int(row[0]) if row else 0


def _has_transactions(one: psycopg.Connection[Any]) -> bool:
    try:
        with one.transaction():
            one.execute("SELECT 1")
    except psycopg.Error:
        return False
    return True
