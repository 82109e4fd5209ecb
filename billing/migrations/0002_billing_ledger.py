from django.db import migrations

from tenants.migrations._ledger import RUNTIME_ROLE, always, drop_refusals, drop_triggers, refuse

CHARGE = "billing_charge"
INVOICE = "billing_invoice"
LINE = "billing_invoiceline"
PERIOD = "billing_billingperiod"
PRICE = "billing_price"
ASSIGNMENT = "billing_pricebookassignment"
ACCRUED = "billing_accruedwindow"
BOOK = "billing_pricebook"
SERIES = "billing_invoiceseries"
ISSUED = "the invoice is final"

# A line belongs to its invoice: once that is final, lines neither come, change nor go.
# The path is fixed, so that no temporary table of a session's own stands in for a ledger.
LINE_FUNCTION = f"""
CREATE FUNCTION billing_keep_final_lines() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE invoice uuid;
BEGIN
  FOREACH invoice IN ARRAY CASE TG_OP
      WHEN 'INSERT' THEN ARRAY[NEW.invoice_id]
      WHEN 'DELETE' THEN ARRAY[OLD.invoice_id]
      ELSE ARRAY[OLD.invoice_id, NEW.invoice_id] END LOOP
    IF EXISTS (SELECT FROM {INVOICE} i WHERE i.id = invoice AND i.state = 'final') THEN
      RAISE EXCEPTION '% on invoice lines is refused: {ISSUED}', TG_OP
        USING ERRCODE = 'restrict_violation', HINT = 'Correct it by a credit note.';
    END IF;
  END LOOP;
  RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE FUNCTION billing_keep_billed_charges() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM (SELECT line_id FROM old_rows UNION SELECT line_id FROM new_rows) r
               JOIN {LINE} l ON l.id = r.line_id JOIN {INVOICE} i ON i.id = l.invoice_id
              WHERE i.state = 'final') THEN
    RAISE EXCEPTION 'UPDATE on charges is refused: {ISSUED}'
      USING ERRCODE = 'restrict_violation', HINT = 'Correct it by a credit note.';
  END IF;
  RETURN NULL;
END $$;
CREATE FUNCTION billing_refuse_posted_charges() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM new_rows r LEFT JOIN {PERIOD} p ON p.id = r.period_id
              WHERE r.line_id IS NOT NULL OR p.state IS DISTINCT FROM 'open') THEN
    RAISE EXCEPTION 'INSERT on charges is refused: a charge comes unbilled, to an open period'
      USING ERRCODE = 'restrict_violation', HINT = 'Post it to the next open period.';
  END IF;
  RETURN NULL;
END $$;
"""

# Prices of one key follow each other without a gap; looked at when the transaction commits.
PRICE_FUNCTION = f"""
CREATE FUNCTION billing_refuse_price_gap() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE gap record;
BEGIN
  SELECT * INTO gap FROM (
    SELECT upper(valid) AS ends, lead(lower(valid)) OVER (ORDER BY lower(valid)) AS follows
      FROM {PRICE}
     WHERE (price_book_id, size, price_group) = (NEW.price_book_id, NEW.size, NEW.price_group)
  ) s WHERE follows IS NOT NULL AND ends IS DISTINCT FROM follows LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'prices of %/% would have a gap from % to %',
      NEW.size, NEW.price_group, gap.ends, gap.follows
      USING ERRCODE = 'check_violation', HINT = 'Let the next price begin where the last one ends.';
  END IF;
  RETURN NULL;
END $$;
"""
PRICE_KEPT = "(OLD.price_book_id, OLD.size, OLD.price_group, OLD.unit_price, lower(OLD.valid))"
CHARGE_KEPT = (
    "(OLD.id, OLD.window_id, OLD.window_start, OLD.cluster_id, OLD.organization_id,"
    " OLD.project_id, OLD.owner, OLD.size, OLD.price_group, OLD.tier, OLD.price_id,"
    " OLD.unit_price, OLD.currency, OLD.unit_seconds, OLD.period_id, OLD.created_at)"
)
ASSIGNMENT_KEPT = "(OLD.organization_id, OLD.price_book_id, lower(OLD.valid))"
PERIOD_KEPT = "(OLD.organization_id, OLD.label, OLD.hours)"


def _changed(kept: str) -> str:
    return f"{kept} IS DISTINCT FROM {kept.replace('OLD.', 'NEW.')}"


TRIGGERS = (
    refuse(INVOICE, operation="UPDATE", reason=ISSUED, when="OLD.state = 'final'")
    + refuse(INVOICE, operation="DELETE", reason=ISSUED, when="OLD.state = 'final'")
    + refuse(INVOICE, operation="TRUNCATE", reason="invoices are never truncated")
    + always(
        LINE,
        f"{LINE}_keeps_final",
        f"BEFORE INSERT OR UPDATE OR DELETE ON {LINE} FOR EACH ROW "
        "EXECUTE FUNCTION billing_keep_final_lines()",
    )
    + refuse(LINE, operation="TRUNCATE", reason="invoice lines are never truncated")
    + always(
        CHARGE,
        f"{CHARGE}_keeps_billed",
        f"AFTER UPDATE ON {CHARGE} REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows "
        "FOR EACH STATEMENT EXECUTE FUNCTION billing_keep_billed_charges()",
    )
    + refuse(
        CHARGE,
        operation="UPDATE",
        reason="only the link to a line changes",
        when=_changed(CHARGE_KEPT),
    )
    + always(
        CHARGE,
        f"{CHARGE}_comes_unbilled",
        f"AFTER INSERT ON {CHARGE} REFERENCING NEW TABLE AS new_rows "
        "FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_posted_charges()",
    )
    + refuse(CHARGE, operation="DELETE", reason="a charge is corrected by a new one")
    + refuse(CHARGE, operation="TRUNCATE", reason="charges are never truncated")
    + refuse(
        PERIOD,
        operation="UPDATE",
        reason="a period is computed once",
        when=f"OLD.state = 'closed' OR {_changed(PERIOD_KEPT)}",
    )
    + refuse(
        PRICE,
        operation="UPDATE",
        reason="a price is closed and succeeded, never edited",
        when=f"NOT upper_inf(OLD.valid) OR {_changed(PRICE_KEPT)}",
    )
    + refuse(PRICE, operation="DELETE", reason="a price is closed and succeeded, never deleted")
    + refuse(PRICE, operation="TRUNCATE", reason="prices are never truncated")
    + refuse(
        ASSIGNMENT,
        operation="UPDATE",
        reason="an assignment is closed and succeeded, never edited",
        when=f"NOT upper_inf(OLD.valid) OR {_changed(ASSIGNMENT_KEPT)}",
    )
    + refuse(ASSIGNMENT, operation="DELETE", reason="an assignment is closed, never deleted")
    + refuse(ASSIGNMENT, operation="TRUNCATE", reason="assignments are never truncated")
    + always(
        PRICE,
        f"{PRICE}_no_gap",
        f"AFTER INSERT OR UPDATE ON {PRICE} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
        "EXECUTE FUNCTION billing_refuse_price_gap()",
    ).replace("CREATE TRIGGER", "CREATE CONSTRAINT TRIGGER")
    + refuse(
        ACCRUED,
        operation="UPDATE",
        reason="its usage is charged in full",
        when="OLD.is_complete",
    )
    + refuse(ACCRUED, operation="DELETE", reason="accrual is never undone")
    + refuse(ACCRUED, operation="TRUNCATE", reason="accrual is never undone")
    + refuse(
        BOOK,
        operation="UPDATE",
        reason="a price book keeps its currency",
        when="OLD.currency IS DISTINCT FROM NEW.currency",
    )
    + refuse(
        SERIES,
        operation="UPDATE",
        reason="numbers are taken one by one",
        when="OLD.code <> NEW.code OR NEW.next_number <> OLD.next_number + 1",
    )
    + refuse(SERIES, operation="DELETE", reason="a number is never given twice")
    + refuse(SERIES, operation="TRUNCATE", reason="a number is never given twice")
    + f"REVOKE DELETE, TRUNCATE ON {CHARGE}, {ACCRUED}, {SERIES} FROM {RUNTIME_ROLE};\n"
)


class Migration(migrations.Migration):
    dependencies = [("billing", "0001_initial"), ("tenants", "0002_audit_ledger")]

    operations = [
        migrations.RunSQL(
            LINE_FUNCTION,
            "DROP FUNCTION billing_keep_final_lines();DROP FUNCTION billing_keep_billed_charges();"
            "DROP FUNCTION billing_refuse_posted_charges();",
        ),
        migrations.RunSQL(PRICE_FUNCTION, "DROP FUNCTION billing_refuse_price_gap();"),
        migrations.RunSQL(
            TRIGGERS,
            "".join(
                drop_refusals(table)
                for table in (
                    INVOICE,
                    LINE,
                    CHARGE,
                    PERIOD,
                    PRICE,
                    ASSIGNMENT,
                    ACCRUED,
                    BOOK,
                    SERIES,
                )
            )
            + drop_triggers(LINE, f"{LINE}_keeps_final")
            + drop_triggers(CHARGE, f"{CHARGE}_keeps_billed", f"{CHARGE}_comes_unbilled")
            + drop_triggers(PRICE, f"{PRICE}_no_gap"),
        ),
    ]
