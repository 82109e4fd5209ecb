"""What is sealed is frozen by the database itself, for the runtime role and for a superuser."""

import uuid

import psycopg
import pytest
from django.db import connection, transaction
from django.db.utils import DatabaseError

from metering.models import MeteringWindow, UsageRecord
from metering.selectors.collection.usage_facts import FACT_COLUMNS
from metering.services.collection.sweeping import meter_due
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.seen import HOUR, LATER, moment, observation, pod, worker
from tests.support.metering.usage_rows import write_record

CHANGES = (
    "UPDATE metering_usagerecord SET unit_seconds = 1",
    "UPDATE metering_usagefact SET owner = 'mallory'",
    "DELETE FROM metering_usagefact",
    "TRUNCATE metering_usagefact",
    "DELETE FROM metering_usagerecord",
    "TRUNCATE metering_usagerecord",
    "TRUNCATE metering_usagerecord_2026_10",
    "DELETE FROM metering_usagerecord_2026_10",
    "UPDATE metering_usagerecord_2026_10 SET fact_version = 2",
    "UPDATE metering_meteringwindow SET state = 'open'",
    "UPDATE metering_meteringwindow SET record_digest = ''",
    "DELETE FROM metering_meteringwindow",
    "TRUNCATE metering_meteringwindow CASCADE",
)
SMUGGLED = FACT_COLUMNS.replace("pod_uid", "'smuggled'")
COPY_COLUMNS = (
    "window_id, window_start, organization_id, unit_seconds, begin_second, end_second, end_kind"
)
INSERT = (
    f"WITH fact AS (INSERT INTO metering_usagefact ({FACT_COLUMNS})"  # noqa: S608 - A fixed text.
    f"  SELECT {SMUGGLED} FROM metering_usage LIMIT 1 RETURNING id, version)"
    f" INSERT INTO {{table}} ({COPY_COLUMNS}, fact_id, fact_version, revision)"
    f" SELECT {COPY_COLUMNS}, fact.id, fact.version, {{revision}}"
    "   FROM metering_usagerecord CROSS JOIN fact LIMIT 1"
)


def meter() -> None:
    """Seal an hour with one pod in it."""
    bind(make_cluster(metered_from=HOUR), "team-nlp", make_project(make_organization()))
    meter_due(worker=worker(observation(pod("a"))), at=moment(3600 + LATER))
    assert MeteringWindow.objects.get().state == "sealed"


@pytest.mark.django_db
@pytest.mark.parametrize("change", CHANGES)
def test_the_runtime_role_cannot_change_what_is_sealed(change: str) -> None:
    meter()

    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(change)

    assert UsageRecord.objects.get().owner == ""
    assert MeteringWindow.objects.get().state == "sealed"


@pytest.mark.django_db
@pytest.mark.parametrize("table", ["metering_usagerecord", "metering_usagerecord_2026_10"])
def test_a_temporary_table_in_front_of_the_windows_deceives_no_trigger(table: str) -> None:
    meter()

    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE metering_meteringwindow (id bigint, state text)")
        with pytest.raises(DatabaseError, match="the window is sealed"), transaction.atomic():
            cursor.execute(f"DELETE FROM {table}")  # noqa: S608 - Fixed texts of this test.
        cursor.execute("DROP TABLE pg_temp.metering_meteringwindow")

    assert UsageRecord.objects.get().pod_uid == "a"


@pytest.mark.django_db
@pytest.mark.parametrize("revision", [0, 1])
@pytest.mark.parametrize("table", ["metering_usagerecord", "metering_usagerecord_2026_10"])
def test_the_runtime_role_cannot_add_to_what_is_sealed(table: str, revision: int) -> None:
    meter()

    with (
        pytest.raises(DatabaseError, match="in state sealed does not take"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(INSERT.format(table=table, revision=revision))

    assert UsageRecord.objects.count() == 1


@pytest.mark.parametrize("replication", ["origin", "replica"])
def test_a_superuser_cannot_change_what_is_sealed(
    committed_db: str,  # noqa: ARG001 - The window is committed into it.
    superuser_url: str,
    replication: str,
) -> None:
    meter()
    inserts = tuple(
        INSERT.format(table=table, revision=revision)
        for table in ("metering_usagerecord", "metering_usagerecord_2026_10")
        for revision in (0, 1)
    )

    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute(f"SET session_replication_role = {replication}")
        for change in (*CHANGES, *inserts):
            with pytest.raises(psycopg.errors.RestrictViolation):
                superuser.execute(change)

    assert UsageRecord.objects.get().pod_uid == "a"
    assert MeteringWindow.objects.get().state == "sealed"


@pytest.mark.django_db
def test_a_revision_of_a_pod_belongs_to_one_organization() -> None:
    meter()
    other = make_project(make_organization("other"), "vision")
    window = MeteringWindow.objects.create(
        cluster=make_cluster("ampere", metered_from=HOUR), start_at=HOUR, not_before=HOUR
    )
    record = UsageRecord.objects.get()
    record.id, record.window, record.cluster_id = None, window, window.cluster_id
    write_record(record)

    record.id, record.project, record.organization_id = None, other, other.organization_id
    with pytest.raises(DatabaseError, match="usage of another organization"), transaction.atomic():
        write_record(record)

    assert UsageRecord.objects.filter(window=window).count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize("column", ["project_id", "organization_id", "catalogue_version"])
def test_usage_refers_to_what_exists_without_a_foreign_key(column: str) -> None:
    meter()
    window = MeteringWindow.objects.create(
        cluster=make_cluster("ampere", metered_from=HOUR), start_at=HOUR, not_before=HOUR
    )
    record = UsageRecord.objects.get()
    record.id, record.window, record.cluster_id = None, window, window.cluster_id
    setattr(record, column, 99 if column == "catalogue_version" else uuid.UUID(int=1))

    with (
        pytest.raises(DatabaseError, match="is of no such project or catalogue"),
        transaction.atomic(),
    ):
        write_record(record)

    assert not UsageRecord.objects.filter(window=window).exists()


def test_what_usage_refers_to_is_never_deleted(
    committed_db: str,  # noqa: ARG001 - The record is committed into it.
    superuser_url: str,
) -> None:
    meter()

    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute("SET session_replication_role = replica")
        for table in (b"tenants_project", b"metering_catalogueversion"):
            with pytest.raises(psycopg.errors.RestrictViolation):
                superuser.execute(b"DELETE FROM " + table)

    assert UsageRecord.objects.get().project.slug
