"""Tests of the audit trail: rows are only ever added, and each carries the hash of its content."""

import psycopg
import pytest
from django.db import DatabaseError, connection, transaction

from tenants.domain.actors import system_actor
from tenants.models import AuditEntry
from tenants.selectors.audit import leaf_mismatches
from tenants.services.audit import record
from tests.builders import AT, make_organization

STATEMENTS = [
    "UPDATE tenants_auditentry SET actor_label = 'nobody'",
    "DELETE FROM tenants_auditentry",
    "TRUNCATE tenants_auditentry",
]


def write_entries(count: int = 1) -> None:
    acme = make_organization()
    for number in range(count):
        with transaction.atomic():
            record(
                actor=system_actor("tests"),
                at=AT,
                action="tenants:test:note",
                object_kind="test",
                object_id=number,
                organization_id=acme.pk if number % 2 else None,
                facts={"größe": number, "nested": {"b": [1, None, "x"], "a": True}},
            )


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.usefixtures("committed_db")
def test_the_runtime_role_cannot_touch_an_entry(statement: str) -> None:
    write_entries()

    with (
        pytest.raises(DatabaseError, match=r"permission denied|append-only"),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)

    assert AuditEntry.objects.get().actor_label == "tests"


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("role", ["origin", "replica"])
def test_even_a_superuser_cannot_touch_an_entry(
    superuser_url: str, statement: str, role: str
) -> None:
    write_entries()

    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute(f"SET session_replication_role = {role}")
        with pytest.raises(psycopg.errors.RestrictViolation, match="append-only"):
            superuser.execute(statement)

    assert AuditEntry.objects.get().actor_label == "tests"


@pytest.mark.django_db
def test_the_leaf_recomputed_in_python_is_the_one_of_the_database() -> None:
    write_entries(4)

    assert leaf_mismatches() == []
    assert all(len(bytes(entry.leaf)) == 32 for entry in AuditEntry.objects.all())


@pytest.mark.django_db
def test_a_leaf_cannot_be_chosen_by_the_writer() -> None:
    AuditEntry.objects.create(
        occurred_at=AT,
        actor_kind="system",
        actor_id="x",
        actor_label="x",
        action="a:b:c",
        object_kind="k",
        object_id="1",
        leaf=b"chosen",
    )

    assert bytes(AuditEntry.objects.get().leaf) != b"chosen"
    assert leaf_mismatches() == []


@pytest.mark.django_db
def test_the_time_in_the_leaf_does_not_depend_on_the_zone_of_the_session() -> None:
    write_entries()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL TIME ZONE 'Asia/Kolkata'")

    assert leaf_mismatches() == []
