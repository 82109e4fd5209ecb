"""Corrections are frozen by the database itself, for the runtime role and for a superuser."""

import psycopg
import pytest
from django.db import connection, transaction
from django.db.utils import DatabaseError

from metering.models import UsageCorrection, UsageRecord
from metering.services.corrections.rechecking import recheck_due
from tenants.domain.identifiers import new_id
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.rechecking import FIRST, learn, seal_hour, sums
from tests.support.metering.seen import HOUR, pod

CHANGES = (
    "UPDATE metering_usagecorrection SET unit_seconds = 1",
    "UPDATE metering_usagecorrection SET lines = '[]'",
    "UPDATE metering_usagecorrection SET state = 'proposed', decided_at = NULL",
    "DELETE FROM metering_usagecorrection",
    "TRUNCATE metering_usagecorrection CASCADE",
    "UPDATE metering_windowrecheck SET state = 'due'",
    "DELETE FROM metering_windowrecheck",
    "TRUNCATE metering_windowrecheck CASCADE",
    "UPDATE metering_usagerecord SET unit_seconds = 0 WHERE revision = 1",
    "DELETE FROM metering_usagerecord WHERE revision = 1",
    "DELETE FROM metering_usagerecord_2026_10 WHERE revision = 1",
)
COLUMNS = (
    "window_id, window_start, organization_id, fact_id, fact_version, unit_seconds, begin_second,"
    " end_second, end_kind"
)
COPIED = (
    "id, window_id, window_start, cluster_id, organization_id, project_id, cause, reason, evidence,"
    " lines, record_count, unit_seconds, digest, state, requested_by, requested_by_id,"
    " requested_at, decided_by, decided_by_id, decided_at, decision_note, version"
)
POST_MORE = (
    f"INSERT INTO metering_usagecorrection ({COPIED})"  # noqa: S608 - As above.
    f" SELECT gen_random_uuid(), {COPIED.removeprefix('id, ')} FROM metering_usagecorrection"
)
TABLES = ("metering_usagerecord", "metering_usagerecord_2026_10")


def record(table: str, *, revision: int, correction: str, columns: str = COLUMNS) -> str:
    """Return a statement that copies the corrected record as another one."""
    return (
        f"INSERT INTO {table} ({COLUMNS}, revision, correction_id)"  # noqa: S608 - Fixed texts.
        f" SELECT {columns}, {revision}, {correction} FROM metering_usagerecord WHERE revision = 1"
    )


# One more record of a posted correction as any revision, one of none, and one of one not there.
ADDED = tuple(
    record(table, revision=revision, correction=correction)
    for table in TABLES
    for revision, correction in (
        (2, "correction_id"),
        (0, "correction_id"),
        (2, "NULL::uuid"),
        (2, "gen_random_uuid()"),
    )
)


def correct() -> None:
    """Seal an hour with pod `a`, and post a correction that adds pod `late`."""
    bind(make_cluster(metered_from=HOUR), "team-nlp", make_project(make_organization()))
    metering = seal_hour(pod("a"))
    learn(metering, pod("a"), pod("late"))
    recheck_due(worker=metering, at=FIRST)
    assert sums() == {"a": 3600, "late": 3600}


@pytest.mark.django_db
def test_the_runtime_role_cannot_change_what_is_corrected() -> None:
    correct()
    for change in (*CHANGES, *ADDED):
        with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(change)

    assert sums() == {"a": 3600, "late": 3600}
    assert UsageCorrection.objects.get().state == "posted"


def run(*statements: str) -> None:
    """Run statements as one transaction, with what is only checked at its end."""
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in (*statements, "SET CONSTRAINTS ALL IMMEDIATE"):
            cursor.execute(statement)


@pytest.mark.django_db
def test_what_is_posted_is_written_when_the_transaction_ends() -> None:
    correct()

    with pytest.raises(DatabaseError, match="posted without its records"):
        run(POST_MORE)

    assert UsageCorrection.objects.count() == 1


@pytest.mark.django_db
def test_nobody_uses_less_than_nothing_anyone_who_writes_it() -> None:
    correct()
    key = new_id()
    less = COPIED.replace("unit_seconds", "-9999").replace("id, window_id", "window_id", 1)
    posted = (
        f"INSERT INTO metering_usagecorrection ({COPIED})"  # noqa: S608 - As above.
        f" SELECT '{key}', {less} FROM metering_usagecorrection"
    )
    written = record(
        TABLES[0],
        revision=2,
        correction=f"'{key}'::uuid",
        columns=COLUMNS.replace("unit_seconds", "-9999"),
    )

    with pytest.raises(DatabaseError, match="would have used -6399 unit-seconds"):
        run(posted, written)

    assert sums() == {"a": 3600, "late": 3600}


@pytest.mark.django_db
def test_a_proposal_is_decided_but_not_edited() -> None:
    correct()
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO metering_usagecorrection ({COPIED})"  # noqa: S608 - As above.
            " SELECT gen_random_uuid(), window_id, window_start, cluster_id, organization_id,"
            " project_id, cause, reason, evidence, lines, 1, 3600, digest, 'proposed',"
            " requested_by, requested_by_id, requested_at, '', '', NULL, '', 1"
            " FROM metering_usagecorrection"
        )
    proposed = UsageCorrection.objects.filter(state="proposed")

    for change in ({"unit_seconds": 7}, {"reason": "Other."}, {"requested_by": "mallory"}):
        with pytest.raises(DatabaseError, match="decided once"), transaction.atomic():
            proposed.update(**change)

    assert proposed.get().unit_seconds == 3600
    assert UsageRecord.objects.count() == 2


@pytest.mark.parametrize("replication", ["origin", "replica"])
def test_a_superuser_cannot_change_what_is_corrected(
    committed_db: str,  # noqa: ARG001 - The correction is committed into it.
    superuser_url: str,
    replication: str,
) -> None:
    correct()
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute(f"SET session_replication_role = {replication}")
        for change in (*CHANGES, *ADDED, POST_MORE):
            with pytest.raises(psycopg.errors.RestrictViolation):
                superuser.execute(change)

    assert sums() == {"a": 3600, "late": 3600}
    assert UsageCorrection.objects.get().state == "posted"
