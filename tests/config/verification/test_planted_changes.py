"""Changes that an attacker would plant: refused for the service's role, named for the owner's.

The first kind is SQL as the runtime role, as somebody would send it who took the service over. The
second is what the owner of the tables can do, who may replace triggers: `verify` names it.
"""

import psycopg
import pytest

from tenants.models import Verification
from tests.support.config.planted import refuses, unguarded, verify
from tests.support.sampling import sampled

REFUSED = {
    "an exception is deleted": ("DELETE FROM metering_meteringexception", "permission denied"),
    "capacity of a sealed hour is moved": (
        "UPDATE metering_capacityrecord SET billed_unit_seconds = 0, idle_unit_seconds = 7200",
        "is sealed",
    ),
    "capacity of a sealed hour grows": (
        (
            "UPDATE metering_capacityrecord SET allocatable_units = 9,"
            " capacity_unit_seconds = 32400,"
            " idle_unit_seconds = 27000"
        ),
        "is sealed",
    ),
    "capacity of a sealed hour is deleted": (
        "DELETE FROM metering_capacityrecord",
        "window is sealed",
    ),
    "what a person decided is opened": (
        (
            "UPDATE metering_meteringexception SET state = 'open', resolution = '',"
            " resolved_at = NULL, resolved_by_id = NULL"
        ),
        "what was decided stays",
    ),
    "an exception becomes another": (
        (
            "UPDATE metering_meteringexception SET kind = 'missing_node', subject = 'other',"
            " details = '{\"x\": 1}', state = 'open', resolution = '', resolved_at = NULL,"
            " resolved_by_id = NULL"
        ),
        "what was decided stays",
    ),
    "a final invoice is inserted": (
        (
            "INSERT INTO billing_invoice SELECT (jsonb_populate_record(i, jsonb_build_object("
            "'id', gen_random_uuid(), 'number', 2))).* FROM billing_invoice i"
        ),
        "begins as a draft",
    ),
    "the counter of a series is raised": (
        "UPDATE billing_invoiceseries SET next_number = next_number + 1, last_issued_at = now()",
        "has no final invoice",
    ),
    "a series is begun": (
        (
            "INSERT INTO billing_invoiceseries (code, first_number, next_number, last_issued_at)"
            " VALUES ('ZZ', 499, 500, now())"
        ),
        "has no final invoice",
    ),
    "a price ends in the past": (
        (
            "UPDATE billing_price SET valid = tstzrange(lower(valid), lower(valid) + '1 hour')"
            " WHERE size = 'small'"
        ),
        "charged already",
    ),
    "an assignment ends in the past": (
        (
            "UPDATE billing_pricebookassignment"
            " SET valid = tstzrange(lower(valid), lower(valid) + '1 hour')"
        ),
        "charged already",
    ),
    "a project moves": (
        (
            "UPDATE tenants_project SET organization_id = (SELECT id FROM tenants_organization"
            " WHERE slug = 'umbrella') WHERE slug = 'vision'"
        ),
        "stays with its organization",
    ),
    "a binding of a metered hour names another project": (
        (
            "UPDATE tenants_namespacebinding SET project_id ="
            " (SELECT id FROM tenants_project WHERE slug = 'virus')"
        ),
        "are sealed",
    ),
    "a binding of a metered hour ends before it": (
        "UPDATE tenants_namespacebinding SET valid = 'empty'",
        "are sealed",
    ),
    "an audit entry is edited": (
        "UPDATE tenants_auditentry SET actor_label = 'x'",
        "permission denied",
    ),
    "a verification is forged": (
        "UPDATE tenants_verification SET difference_count = 7",
        "is kept",
    ),
}


@pytest.mark.usefixtures("world")
def test_the_runtime_role_cannot() -> None:
    verify()

    for statement, refusal in REFUSED.values():
        refuses(statement, refusal)

    assert verify() == ""


LEAF = "UPDATE tenants_auditentry e SET leaf = sha256(audit_leaf_input(e)) WHERE id = {id}"
NAMED = {
    "a function is left replaced": (
        [
            (
                "CREATE OR REPLACE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS"
                " 'BEGIN RETURN NEW; END'"
            )
        ],
        "The function ledger_refuse() is missing or was replaced.",
    ),
    "a function of another name is there": (
        ["CREATE FUNCTION harmless() RETURNS int LANGUAGE sql AS 'SELECT 1'"],
        "The function harmless() is not ours.",
    ),
    "a trigger is left off": (
        ["ALTER TABLE billing_invoice DISABLE TRIGGER billing_invoice_refuses_update"],
        "The trigger billing_invoice_refuses_update on billing_invoice is missing or was replaced.",
    ),
    "a trigger of one month is left off": (
        [
            (
                "ALTER TABLE metering_usagerecord_2026_10"
                " DISABLE TRIGGER metering_usagerecord_refuses_update"
            )
        ],
        (
            "metering_usagerecord_2026_10: The trigger metering_usagerecord_refuses_update on "
            "metering_usagerecord_YYYY_MM is missing or was replaced."
        ),
    ),
    "two projects may have a namespace at once": (
        ["ALTER TABLE tenants_namespacebinding DROP CONSTRAINT namespace_bindings_do_not_overlap"],
        (
            "The constraint namespace_bindings_do_not_overlap on tenants_namespacebinding"
            " is missing or was replaced."
        ),
    ),
    "a check is replaced by one that always holds": (
        [
            "ALTER TABLE tenants_apitoken DROP CONSTRAINT api_token_expires_after_creation",
            (
                "ALTER TABLE tenants_apitoken ADD CONSTRAINT api_token_expires_after_creation"
                " CHECK (true)"
            ),
        ],
        "The constraint api_token_expires_after_creation on tenants_apitoken is not ours.",
    ),
    "a unique index is dropped": (
        ["DROP INDEX account_change_open_once"],
        "The index account_change_open_once on tenants_accountchange is missing or was replaced.",
    ),
    "the service may change a ledger": (
        ["GRANT UPDATE ON tenants_auditentry TO gpu_ledger_runtime"],
        "The privilege UPDATE of gpu_ledger_runtime on tenants_auditentry is not ours.",
    ),
    "the role that the service signs in as may empty a ledger": (
        ["GRANT TRUNCATE ON billing_charge TO gpu_ledger_app"],
        "The privilege TRUNCATE of gpu_ledger_app on billing_charge is not ours.",
    ),
    "everybody may change a column of a ledger": (
        ["GRANT UPDATE (occurred_at) ON tenants_auditentry TO PUBLIC"],
        "The privilege UPDATE of PUBLIC on tenants_auditentry(occurred_at) is not ours.",
    ),
    "the service may change one month": (
        ["GRANT UPDATE ON metering_usagerecord_2026_10 TO gpu_ledger_runtime"],
        (
            "metering_usagerecord_2026_10: The privilege UPDATE of gpu_ledger_runtime on"
            " metering_usagerecord_YYYY_MM is not ours."
        ),
    ),
    "usage was changed while a trigger was replaced": (
        ["UPDATE metering_usagefact SET owner = 'dave' WHERE units = 1"],
        "has 2 records, and not the 2 that were sealed.",
    ),
    "usage and its window were changed": (
        ["UPDATE metering_meteringwindow SET record_digest = repeat('0', 64)"],
        "has another digest than the audit entry of its seal.",
    ),
    "capacity of a sealed hour was moved": (
        ["UPDATE metering_capacityrecord SET billed_unit_seconds = 0, idle_unit_seconds = 7200"],
        "has other capacity billed than its records hold.",
    ),
    "the total of an invoice was changed": (
        ["UPDATE billing_invoice SET total = 1"],
        "-000001 shows 5.00, has the total 1",
    ),
    "the document of an invoice was changed": (
        ["UPDATE billing_invoice SET document = jsonb_set(document, '{currency}', '\"USD\"')"],
        "-000001 has another document than was issued.",
    ),
    "a month of usage is detached": (
        ["ALTER TABLE metering_usagerecord DETACH PARTITION metering_usagerecord_2026_10"],
        "metering_usagerecord_2026_10 is detached from its table.",
    ),
    "a sequence is set back": (
        ["SELECT setval(pg_get_serial_sequence('auth_user', 'id'), 2)"],
        "The sequence of auth_user is at 2, behind its row 7.",
    ),
    "the counter of a series was set back": (
        ["UPDATE billing_invoiceseries SET next_number = 1"],
        "is at 0; its final invoices are 1, the last has 1.",
    ),
    "the last invoice is gone, and its number": (
        [
            "DELETE FROM billing_invoiceline",
            "DELETE FROM billing_duedate",
            "DELETE FROM billing_invoice",
            "UPDATE billing_invoiceseries SET next_number = 1",
        ],
        "was finalized by the audit trail, and is not, or is another.",
    ),
    "hours are not sealed any more, and their usage is another's": (
        [
            "UPDATE metering_meteringwindow SET state = 'reconciled'",
            "UPDATE metering_usagefact SET owner = 'dave'",
        ],
        "The window 1 was sealed by the audit trail, and is not, or is another.",
    ),
    "billed charges and their prices were doubled": (
        [
            "UPDATE billing_charge SET unit_seconds = unit_seconds * 2",
            "UPDATE billing_price SET unit_price = unit_price * 2",
        ],
        " 1 has 14400 unit-seconds of its own charges, and not 7200.",
    ),
    "charges moved to another person": (
        ["UPDATE billing_charge SET owner = 'dave'"],
        "The charges of window 1 are not of its usage.",
    ),
    "charges moved to another price": (
        ["UPDATE billing_charge SET unit_price = 1"],
        "The charges of window 1 are not at the prices of its hour.",
    ),
    "a price was changed": (
        ["UPDATE billing_price SET unit_price = 1"],
        "of 1.0000000000 for small/* is not what was set by the audit trail.",
    ),
    "a price ends early": (
        [
            (
                "UPDATE billing_price SET valid = tstzrange(lower(valid), '2027-01-01')"
                " WHERE size = 'small'"
            )
        ],
        "for small/* does not end where the next one begins.",
    ),
    "an assignment names another price book": (
        [
            (
                "INSERT INTO billing_pricebook (id, slug, name, currency, version, created_at)"
                " VALUES (gen_random_uuid(), 'other', 'Other', 'EUR', 1, now())"
            ),
            (
                "UPDATE billing_pricebookassignment SET price_book_id ="
                " (SELECT id FROM billing_pricebook WHERE slug = 'other')"
            ),
        ],
        "of globex is not what was set by the audit trail.",
    ),
    "an assignment ends early": (
        [("UPDATE billing_pricebookassignment SET valid = tstzrange(lower(valid), '2027-01-01')")],
        "of globex does not end where the next one begins.",
    ),
    "an assignment is gone": (
        ["DELETE FROM billing_pricebookassignment"],
        "was made by the audit trail, and is missing.",
    ),
    "a tax rate was changed": (
        ["UPDATE billing_taxrate SET rate = 21"],
        "is not what was set by the audit trail.",
    ),
    "an organization is taxed otherwise": (
        ["UPDATE billing_taxtreatment SET category = 'O'"],
        "is not what was set by the audit trail.",
    ),
    "a discount was changed": (
        [
            (
                "UPDATE billing_tierschedule"
                " SET bands = jsonb_set(bands, '{0,discount_percent}', '\"9\"')"
            )
        ],
        "is not what was set by the audit trail.",
    ),
    "a discount counts by another measure": (
        ["UPDATE billing_tierschedule SET basis = 'money'"],
        "is not what was set by the audit trail.",
    ),
    "a schedule is superseded without an entry": (
        ["UPDATE billing_tierschedule SET superseded_from = '2031-05'"],
        "is withdrawn or replaced otherwise than by the audit trail.",
    ),
    "a schedule is withdrawn without an entry": (
        ["UPDATE billing_tierschedule SET withdrawn_at = now()"],
        "is withdrawn or replaced otherwise than by the audit trail.",
    ),
    "a calendar of prices ends later": (
        ["UPDATE billing_pricecalendar SET end_at = '2099-01-01'"],
        "is not what was set by the audit trail.",
    ),
    "a tax rate is gone": (
        ["DELETE FROM billing_taxrate"],
        "was set by the audit trail, and is missing.",
    ),
    "an invoice was finalized by its drafter": (
        ["UPDATE billing_invoice SET finalized_by = drafted_by"],
        "-000001 names another finalizer than the audit entry of its finalization.",
    ),
    "an invoice was drafted by another person": (
        ["UPDATE billing_invoice SET drafted_by = 'eve'"],
        "-000001 names another drafter than the audit entry of its draft.",
    ),
    "a column may be empty": (
        ["ALTER TABLE billing_invoice ALTER COLUMN drafted_by DROP NOT NULL"],
        "The list of columns of billing_invoice, with types and NOT NULL, is missing",
    ),
    "a line of an invoice was changed": (
        ["UPDATE billing_invoiceline SET unit_price = 1"],
        "-000001 has other lines than its document.",
    ),
    "an invoice has another number": (
        [
            "UPDATE billing_invoice SET number = 2",
            "UPDATE billing_invoiceseries SET next_number = 3",
        ],
        "has another number than the audit entry of its finalization.",
    ),
    "an audit entry was edited": (
        ["UPDATE tenants_auditentry SET actor_label = 'eve' WHERE id = {id}"],
        "is not what its leaf was made of.",
    ),
    "an audit entry was edited with its leaf": (
        ["UPDATE tenants_auditentry SET actor_label = 'eve' WHERE id = {id}", LEAF],
        "an earlier verification has",
    ),
    "an audit entry was deleted": (
        ["DELETE FROM tenants_auditentry WHERE id = {id}"],
        "an earlier verification",
    ),
}


@pytest.mark.usefixtures("verified_world")
@pytest.mark.parametrize("planted", sampled(NAMED, every=3))
def test_what_the_owner_did_is_named(planted: str, owner: psycopg.Connection) -> None:
    statements, sentence = NAMED[planted]
    (entry_id,) = owner.execute(
        "SELECT id FROM tenants_auditentry WHERE action = 'billing:invoice:finalize'"
    ).fetchone() or (0,)

    with unguarded(owner):
        for statement in statements:
            owner.execute(statement.replace("{id}", str(entry_id)).encode())

    assert sentence in verify()
    assert Verification.objects.latest("id").difference_count >= 1


@pytest.mark.usefixtures("world")
def test_who_forges_entries_and_the_last_run_still_differs_from_the_log(
    owner: psycopg.Connection,
) -> None:
    assert verify() == ""
    last = Verification.objects.latest("id")
    with unguarded(owner):
        owner.execute(
            "UPDATE tenants_auditentry SET actor_label = 'eve' WHERE action = 'billing:price:set'"
        )
        owner.execute("DELETE FROM tenants_auditentry WHERE object_kind = 'verification'")
        owner.execute("UPDATE tenants_auditentry e SET leaf = sha256(audit_leaf_input(e))")
        owner.execute("DELETE FROM tenants_verification")
    assert verify() == ""

    found = verify(f"--expect-audit={last.audit_count}:{last.audit_digest}")

    assert f"The first {last.audit_count} audit entries have the digest" in found
    assert f"the log has {last.audit_digest}" in found
