"""Changes that an attacker would plant about a correction: refused, or named by `verify`."""

import psycopg
import pytest
from django.db import connection

from billing.models import Invoice
from metering.models import UsageRecord
from metering.services.corrections.review import ask_correction
from tenants.models import Verification
from tests.support.billing.ledger import DORA
from tests.support.builders import AT
from tests.support.config.planted import refuses, unguarded, verify


@pytest.fixture
def corrected(world: None) -> None:  # noqa: ARG001 - What is corrected.
    """A posted correction of the first hour."""
    ask_correction(
        record=UsageRecord.objects.order_by("id")[0],
        unit_seconds=-600,
        reason="Seen.",
        is_four_eyes=False,
        actor=DORA,
        at=AT,
    )


@pytest.mark.usefixtures("corrected")
def test_the_runtime_role_rewrites_no_capacity_of_a_corrected_hour() -> None:
    grown = (
        "allocatable_units = 9, capacity_unit_seconds = capacity_unit_seconds + 25200,"
        " idle_unit_seconds = idle_unit_seconds + 25200"
    )

    refuses(f"UPDATE metering_capacityrecord SET {grown}", "is sealed")  # noqa: S608 - A constant.
    refuses(
        f"UPDATE metering_capacityrecord SET id = id + 1000000, {grown}",  # noqa: S608 - As above.
        "is sealed",
    )


MOVED = """
INSERT INTO metering_capacityrecord (window_id, window_start, cluster_id, node, resource, size,
  price_group, share_numerator, share_denominator, allocatable_units, capacity_unit_seconds,
  billed_unit_seconds, held_unit_seconds, idle_unit_seconds)
SELECT window_id, window_start, cluster_id, 'node-2', resource, size, price_group, share_numerator,
       share_denominator, 0, 0, 600, 0, -600 FROM metering_capacityrecord
"""
TAKEN = (
    "UPDATE metering_capacityrecord SET billed_unit_seconds = billed_unit_seconds - 600,"
    " idle_unit_seconds = idle_unit_seconds + 600 WHERE node = 'node-1'"
)
NESTED = f"""
CREATE TEMPORARY TABLE own (moved boolean);
CREATE FUNCTION pg_temp.move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN {TAKEN}; RETURN NULL; END $$;
CREATE TRIGGER moves AFTER INSERT ON own FOR EACH ROW EXECUTE FUNCTION pg_temp.move();
INSERT INTO own VALUES (true)
"""  # noqa: S608 - A constant.


@pytest.mark.usefixtures("corrected")
def test_the_runtime_role_moves_no_capacity_of_a_corrected_hour_to_another_node() -> None:
    for statement in (MOVED, TAKEN, NESTED):
        refuses(statement, "is sealed")


# The trigger function of corrections, on a table of the runtime role: it would post a correction
# once more, or call a cast of that role as the owner of the tables.
BORROWED = """
{prepared}
CREATE TEMPORARY TABLE own (id {type}, state text);
CREATE TRIGGER moves AFTER INSERT ON own REFERENCING NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION metering_move_capacity();
INSERT INTO own {rows}
"""
CAST = """
CREATE TYPE pg_temp.borrowed AS ENUM ('x');
CREATE FUNCTION pg_temp.as_owner(pg_temp.borrowed) RETURNS uuid LANGUAGE plpgsql AS $$
BEGIN
  ALTER TABLE public.tenants_auditentry DISABLE TRIGGER USER;
  UPDATE public.tenants_auditentry SET actor_label = 'eve';
  RETURN gen_random_uuid();
END $$;
CREATE CAST (pg_temp.borrowed AS uuid) WITH FUNCTION pg_temp.as_owner(pg_temp.borrowed)
  AS ASSIGNMENT;
"""
AGAIN = "SELECT id, 'posted' FROM metering_usagecorrection"


@pytest.mark.usefixtures("corrected")
def test_the_runtime_role_borrows_no_trigger_that_runs_as_the_owner() -> None:
    for statement in (
        BORROWED.format(prepared="", type="uuid", rows=AGAIN),
        BORROWED.format(prepared=CAST, type="pg_temp.borrowed", rows="VALUES ('x', 'posted')"),
    ):
        refuses(statement, "permission denied for function metering_move_capacity")


@pytest.mark.usefixtures("corrected")
def test_the_owner_moves_no_capacity_either_while_the_triggers_stand(
    owner: psycopg.Connection,
) -> None:
    with pytest.raises(psycopg.errors.RestrictViolation, match="is sealed"):
        owner.execute(TAKEN.encode())


@pytest.mark.usefixtures("corrected")
@pytest.mark.parametrize(
    "statement",
    [
        TAKEN + ";" + MOVED,
        "UPDATE metering_capacityrecord SET node = 'node-3'",
        (
            "UPDATE metering_capacityrecord SET held_unit_seconds = held_unit_seconds + 60,"
            " idle_unit_seconds = idle_unit_seconds - 60"
        ),
    ],
)
def test_capacity_that_the_owner_moved_in_a_corrected_hour_is_named(
    statement: str, owner: psycopg.Connection
) -> None:
    assert verify() == ""

    with unguarded(owner):
        owner.execute(statement.encode())

    assert "has other capacity than the last audit entry about it." in verify()


@pytest.mark.usefixtures("corrected")
@pytest.mark.parametrize("facts", ['["capacity_digest"]', '{"capacity_digest": null}'])
def test_an_entry_without_a_digest_hides_no_capacity(facts: str, owner: psycopg.Connection) -> None:
    """The attack: the service's role adds a newer entry, with which nothing was compared."""
    with unguarded(owner):
        owner.execute(MOVED.encode())
        owner.execute(TAKEN.encode())
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO tenants_auditentry (occurred_at, actor_kind, actor_id, actor_label,"
            " action, object_kind, object_id, facts)"
            " SELECT now(), 'system', 'x', 'x', 'metering:window:recheck', 'metering_window',"
            " window_id, %s::jsonb FROM metering_usagecorrection",
            [facts],
        )

    assert "has other capacity than the last audit entry about it." in verify()


CORRECTED = {
    "its record moved to another organization": (
        (
            "WITH moved AS (UPDATE metering_usagefact f SET (project_id, organization_id) ="
            "  (SELECT id, organization_id FROM tenants_project WHERE slug = 'virus')"
            "  FROM metering_usagerecord r WHERE r.revision = 1"
            "   AND (f.id, f.version) = (r.fact_id, r.fact_version) RETURNING f.organization_id)"
            " UPDATE metering_usagerecord SET organization_id = moved.organization_id"
            " FROM moved WHERE revision = 1"
        ),
        "has other records.",
    ),
    "its record is another pod's": (
        (
            "UPDATE metering_usagefact f SET pod_name = 'x' FROM metering_usagerecord r"
            " WHERE r.revision = 1 AND (f.id, f.version) = (r.fact_id, r.fact_version)"
        ),
        "has other records.",
    ),
    "its record is of no correction": (
        "UPDATE metering_usagerecord SET correction_id = NULL WHERE revision = 1",
        "has records of no posted correction.",
    ),
    "it was never posted": (
        (
            "UPDATE metering_usagecorrection SET state = 'proposed', decided_at = NULL;"
            "DELETE FROM metering_usagerecord WHERE revision = 1"
        ),
        "was posted by the audit trail, and is not, or is another.",
    ),
    "another person asked for it": (
        "UPDATE metering_usagecorrection SET requested_by = 'eve', requested_by_id = '77'",
        "is posted without audit entries of its asker and decider.",
    ),
    "another person decided it": (
        "UPDATE metering_usagecorrection SET decided_by = 'eve', decided_by_id = '77'",
        "is posted without audit entries of its asker and decider.",
    ),
    "it has another digest": (
        "UPDATE metering_usagecorrection SET digest = repeat('0', 64)",
        "is posted without audit entries of its asker and decider.",
    ),
}


@pytest.mark.usefixtures("corrected")
def test_what_the_owner_did_to_a_correction_is_named(owner: psycopg.Connection) -> None:
    assert verify() == ""

    with unguarded(owner):
        owner.execute("CREATE TEMPORARY TABLE records AS TABLE metering_usagerecord")
        owner.execute("CREATE TEMPORARY TABLE facts AS TABLE metering_usagefact")
        owner.execute("CREATE TEMPORARY TABLE corrections AS TABLE metering_usagecorrection")
        for statement, sentence in CORRECTED.values():
            owner.execute(statement.encode())
            assert sentence in verify()
            owner.execute(RESTORED)


RESTORED = """
UPDATE metering_usagefact f SET (organization_id, project_id, pod_name) =
       (k.organization_id, k.project_id, k.pod_name) FROM facts k
 WHERE (k.id, k.version) = (f.id, f.version);
DELETE FROM metering_usagerecord;
INSERT INTO metering_usagerecord SELECT * FROM records;
UPDATE metering_usagecorrection c SET (state, decided_at, digest, requested_by, requested_by_id,
       decided_by, decided_by_id) = (k.state, k.decided_at, k.digest, k.requested_by,
       k.requested_by_id, k.decided_by, k.decided_by_id) FROM corrections k WHERE k.id = c.id;
"""


@pytest.mark.usefixtures("corrected")
def test_what_cannot_be_read_is_named_and_hides_nothing_else(owner: psycopg.Connection) -> None:
    with unguarded(owner):
        owner.execute("UPDATE billing_invoice SET document = document - 'total'")
        owner.execute('UPDATE metering_usagecorrection SET lines = \'[{"seconds": "x"}]\'')
        owner.execute("UPDATE metering_meteringwindow SET start_at = 'infinity' WHERE id = 2")
        owner.execute("UPDATE billing_price SET unit_price = 1")

    found = verify()

    assert f"The invoice {Invoice.objects.get().reference} cannot be read: KeyError." in found
    assert "has other lines than were asked for." in found
    assert "has other records." in found
    assert "is not what was set by the audit trail." in found
    assert Verification.objects.latest("id").ended_at is not None
