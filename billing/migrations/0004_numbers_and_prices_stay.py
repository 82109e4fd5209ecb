from django.db import migrations

from tenants.migrations._ledger import always, drop_triggers, refuse

INVOICE = "billing_invoice"
LINE = "billing_invoiceline"
SERIES = "billing_invoiceseries"
PRICE = "billing_price"
ASSIGNMENT = "billing_pricebookassignment"
CHARGE = "billing_charge"

# Looked at when the transaction commits: a number and its final invoice come in one transaction,
# and what is final adds up. A price or an assignment ends after the last hour it has charged.
RULES = f"""
CREATE FUNCTION billing_number_is_used() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM {INVOICE} i WHERE i.series = NEW.code
                    AND i.number = NEW.next_number - 1 AND i.state = 'final') THEN
    RAISE EXCEPTION 'number % of series % has no final invoice', NEW.next_number - 1, NEW.code
      USING ERRCODE = 'restrict_violation', HINT = 'A number is taken by finalizing an invoice.';
  END IF;
  RETURN NULL;
END $$;
CREATE FUNCTION billing_final_adds_up() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM {SERIES} s WHERE s.code = NEW.series AND NEW.number BETWEEN 1
                    AND s.next_number - 1)
     OR (SELECT coalesce(sum(l.amount), 0) FROM {LINE} l WHERE l.invoice_id = NEW.id)
        <> NEW.total THEN
    RAISE EXCEPTION 'invoice % is final without its number or its lines', NEW.id
      USING ERRCODE = 'restrict_violation', HINT = 'Finalize it: that numbers and checks it.';
  END IF;
  RETURN NULL;
END $$;
CREATE FUNCTION billing_keep_charged_hours() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE charged timestamptz;
BEGIN
  IF TG_TABLE_NAME = '{PRICE}' THEN
    SELECT max(window_start) INTO charged FROM {CHARGE} WHERE price_id = OLD.id;
  ELSE
    SELECT window_start INTO charged FROM {CHARGE}
     WHERE organization_id = (to_jsonb(OLD) ->> 'organization_id')::uuid
       AND window_start >= upper(NEW.valid) AND OLD.valid @> window_start LIMIT 1;
  END IF;
  IF charged >= upper(NEW.valid) THEN
    RAISE EXCEPTION 'UPDATE on % is refused: the hour % is charged already', TG_TABLE_NAME, charged
      USING ERRCODE = 'restrict_violation', HINT = 'Let it end after the last hour it has charged.';
  END IF;
  RETURN NEW;
END $$;
"""


def _constraint(table: str, name: str, event: str, function: str, when: str = "") -> str:
    condition = f"WHEN ({when}) " if when else ""
    return always(
        table,
        f"{table}_{name}",
        f"AFTER {event} ON {table} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
        f"{condition}EXECUTE FUNCTION {function}()",
    ).replace("CREATE TRIGGER", "CREATE CONSTRAINT TRIGGER")


TRIGGERS = (
    refuse(
        INVOICE,
        operation="INSERT",
        reason="an invoice begins as a draft, and is numbered when it is finalized",
        when="NEW.state = 'final' OR NEW.number IS NOT NULL",
    )
    + _constraint(INVOICE, "adds_up", "UPDATE", "billing_final_adds_up", "NEW.state = 'final'")
    + _constraint(SERIES, "number_is_used", "INSERT OR UPDATE", "billing_number_is_used")
    + always(
        PRICE,
        f"{PRICE}_keeps_charged",
        f"BEFORE UPDATE ON {PRICE} FOR EACH ROW WHEN (NEW.valid IS DISTINCT FROM OLD.valid) "
        "EXECUTE FUNCTION billing_keep_charged_hours()",
    )
    + always(
        ASSIGNMENT,
        f"{ASSIGNMENT}_keeps_charged",
        f"BEFORE UPDATE ON {ASSIGNMENT} FOR EACH ROW WHEN (NEW.valid IS DISTINCT FROM OLD.valid) "
        "EXECUTE FUNCTION billing_keep_charged_hours()",
    )
)


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0003_corrections"),
        ("tenants", "0014_audited_writes"),
    ]

    operations = [
        migrations.RunSQL(
            RULES,
            "DROP FUNCTION billing_number_is_used();DROP FUNCTION billing_final_adds_up();"
            "DROP FUNCTION billing_keep_charged_hours();",
        ),
        migrations.RunSQL(
            TRIGGERS,
            drop_triggers(INVOICE, f"{INVOICE}_refuses_insert", f"{INVOICE}_adds_up")
            + drop_triggers(SERIES, f"{SERIES}_number_is_used")
            + drop_triggers(PRICE, f"{PRICE}_keeps_charged")
            + drop_triggers(ASSIGNMENT, f"{ASSIGNMENT}_keeps_charged"),
        ),
    ]
