from django.db import migrations

from tenants.migrations._ledger import RUNTIME_ROLE, always, drop_triggers, refuse

CAPACITY = "metering_capacityrecord"
EXCEPTION = "metering_meteringexception"
WINDOW = "metering_meteringwindow"
CORRECTION = "metering_usagecorrection"
BINDING = "tenants_namespacebinding"
PROJECT = "tenants_project"

# After the seal capacity moves with posted corrections only, and what is idle follows from what is
# billed; only a correction that releases what was held takes from that. A node that the hour did
# not have offers nothing. That what is billed is what the records say, `verify` compares.
RULES = f"""
CREATE FUNCTION metering_keep_sealed_capacity() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  sealed bigint[];
  offender bigint;
BEGIN
  IF TG_OP = 'INSERT' THEN
    SELECT array_agg(w.id) INTO sealed FROM {WINDOW} w
     WHERE w.id IN (SELECT window_id FROM new_rows) AND w.state = 'sealed';
  ELSE
    SELECT array_agg(w.id) INTO sealed FROM {WINDOW} w
     WHERE w.id IN (SELECT window_id FROM new_rows UNION SELECT window_id FROM old_rows)
       AND w.state = 'sealed';
  END IF;
  IF sealed IS NULL THEN
    RETURN NULL;
  END IF;
  IF TG_OP = 'INSERT' THEN
    SELECT n.window_id INTO offender FROM new_rows n
     WHERE n.window_id = ANY(sealed)
       AND (n.allocatable_units, n.held_unit_seconds, n.idle_unit_seconds)
           <> (0, 0, greatest(0, -n.billed_unit_seconds)) LIMIT 1;
  ELSE
    -- A row under another id has no old row, and differs in everything.
    SELECT coalesce(o.window_id, n.window_id) INTO offender
      FROM new_rows n FULL JOIN old_rows o ON o.id = n.id
     WHERE (n.window_id = ANY(sealed) OR o.window_id = ANY(sealed))
       AND ((n.window_id, n.window_start, n.cluster_id, n.node, n.resource, n.size, n.price_group,
             n.sharing_mode, n.share_numerator, n.share_denominator, n.allocatable_units)
            IS DISTINCT FROM
            (o.window_id, o.window_start, o.cluster_id, o.node, o.resource, o.size, o.price_group,
             o.sharing_mode, o.share_numerator, o.share_denominator, o.allocatable_units)
         OR n.held_unit_seconds NOT BETWEEN 0 AND o.held_unit_seconds
         OR (n.held_unit_seconds < o.held_unit_seconds AND NOT EXISTS (
               SELECT FROM {CORRECTION} c WHERE c.window_id = n.window_id
                  AND c.state = 'posted' AND c.cause = 'released'))
         OR n.idle_unit_seconds <> greatest(
              o.idle_unit_seconds - (n.billed_unit_seconds - o.billed_unit_seconds)
              + (o.held_unit_seconds - n.held_unit_seconds), least(o.idle_unit_seconds, 0))
         OR n.capacity_unit_seconds
            <> n.billed_unit_seconds + n.held_unit_seconds + n.idle_unit_seconds)
     LIMIT 1;
  END IF;
  IF offender IS NULL THEN
    SELECT w.id INTO offender FROM {WINDOW} w
     WHERE w.id = ANY(sealed) AND NOT EXISTS (
       SELECT FROM {CORRECTION} c WHERE c.window_id = w.id AND c.state = 'posted') LIMIT 1;
  END IF;
  IF offender IS NOT NULL THEN
    RAISE EXCEPTION '% on capacity is refused: window % is sealed', TG_OP, offender
      USING ERRCODE = 'restrict_violation',
            HINT = 'Capacity of a sealed hour moves with a posted correction only.';
  END IF;
  RETURN NULL;
END $$;
CREATE FUNCTION metering_refuse_sealed_delete() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM {WINDOW} w WHERE w.id = OLD.window_id AND w.state = 'sealed') THEN
    RAISE EXCEPTION 'DELETE on % is refused: the window is sealed', TG_TABLE_NAME
      USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN OLD;
END $$;
CREATE FUNCTION metering_keep_metered_binding() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE hours tstzmultirange := tstzmultirange(OLD.valid);
BEGIN
  IF TG_OP = 'UPDATE' AND (OLD.cluster_id, OLD.namespace, OLD.project_id, OLD.default_owner_id)
       IS NOT DISTINCT FROM
       (NEW.cluster_id, NEW.namespace, NEW.project_id, NEW.default_owner_id) THEN
    hours := (hours + tstzmultirange(NEW.valid)) - (hours * tstzmultirange(NEW.valid));
  END IF;
  IF EXISTS (SELECT FROM {WINDOW} w WHERE w.cluster_id = OLD.cluster_id AND w.state = 'sealed'
                AND w.start_at >= coalesce(lower(hours), '-infinity')
                AND w.start_at < coalesce(upper(hours), 'infinity') AND hours @> w.start_at) THEN
    RAISE EXCEPTION '% on bindings is refused: hours of % are sealed', TG_OP, OLD.namespace
      USING ERRCODE = 'restrict_violation',
            HINT = 'End the binding at a coming hour, and bind the namespace anew from there.';
  END IF;
  RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
"""
EXCEPTION_KEY = (
    "(OLD.id, OLD.cluster_id, OLD.window_id, OLD.window_start, OLD.kind, OLD.subject,"
    " OLD.created_at)"
)
# As the product opens one again: without the decision, and after a person's for other facts, or
# where the window waits.
OPENED_OTHERWISE = """
  OLD.state = 'resolved' AND NEW.state <> 'resolved'
  AND (NEW.state <> 'open' OR NEW.resolution <> '' OR NEW.resolved_at IS NOT NULL
    OR NEW.resolved_by_id IS NOT NULL
    OR (OLD.resolved_by_id IS NOT NULL
      AND OLD.kind NOT IN ('low_coverage', 'overdue', 'quarantined', 'source_unavailable')
      AND (OLD.details - 'query_digest', OLD.held_unit_seconds)
          IS NOT DISTINCT FROM (NEW.details - 'query_digest', NEW.held_unit_seconds)))"""
TRIGGERS = (
    always(
        CAPACITY,
        f"{CAPACITY}_checks_insert",
        f"AFTER INSERT ON {CAPACITY} REFERENCING NEW TABLE AS new_rows "
        "FOR EACH STATEMENT EXECUTE FUNCTION metering_keep_sealed_capacity()",
    )
    + always(
        CAPACITY,
        f"{CAPACITY}_checks_update",
        f"AFTER UPDATE ON {CAPACITY} REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows "
        "FOR EACH STATEMENT EXECUTE FUNCTION metering_keep_sealed_capacity()",
    )
    + always(
        CAPACITY,
        f"{CAPACITY}_keeps_sealed",
        f"BEFORE DELETE ON {CAPACITY} FOR EACH ROW "
        "EXECUTE FUNCTION metering_refuse_sealed_delete()",
    )
    + refuse(CAPACITY, operation="TRUNCATE", reason="capacity is never truncated")
    + refuse(
        EXCEPTION,
        operation="UPDATE",
        reason="what was decided stays; open it again instead",
        when=f"{EXCEPTION_KEY} IS DISTINCT FROM {EXCEPTION_KEY.replace('OLD.', 'NEW.')}"
        " OR (OLD.state = 'resolved' AND NEW.state = 'resolved')"
        f" OR ({OPENED_OTHERWISE})",
    )
    + refuse(EXCEPTION, operation="DELETE", reason="an exception is resolved, and kept")
    + refuse(EXCEPTION, operation="TRUNCATE", reason="an exception is resolved, and kept")
    + always(
        BINDING,
        f"{BINDING}_keeps_metered",
        f"BEFORE UPDATE OR DELETE ON {BINDING} FOR EACH ROW "
        "EXECUTE FUNCTION metering_keep_metered_binding()",
    )
    + refuse(
        PROJECT,
        operation="UPDATE",
        reason="a project stays with its organization",
        when="OLD.organization_id IS DISTINCT FROM NEW.organization_id",
    )
    + refuse(PROJECT, operation="DELETE", reason="a project is closed, and kept")
    + f"REVOKE DELETE ON {EXCEPTION}, {BINDING}, {PROJECT} FROM {RUNTIME_ROLE};\n"
)


class Migration(migrations.Migration):
    dependencies = [
        ("metering", "0016_copied_device_figures"),
        ("tenants", "0014_audited_writes"),
    ]

    operations = [
        migrations.RunSQL(
            RULES,
            "DROP FUNCTION metering_keep_sealed_capacity();"
            "DROP FUNCTION metering_refuse_sealed_delete();"
            "DROP FUNCTION metering_keep_metered_binding();",
        ),
        migrations.RunSQL(
            TRIGGERS,
            f"GRANT DELETE ON {EXCEPTION}, {BINDING}, {PROJECT} TO {RUNTIME_ROLE};\n"
            + drop_triggers(
                CAPACITY,
                f"{CAPACITY}_checks_insert",
                f"{CAPACITY}_checks_update",
                f"{CAPACITY}_keeps_sealed",
                f"{CAPACITY}_refuses_truncate",
            )
            + drop_triggers(BINDING, f"{BINDING}_keeps_metered")
            + "".join(
                drop_triggers(table, *(f"{table}_refuses_{one}" for one in operations))
                for table, operations in (
                    (EXCEPTION, ("update", "delete", "truncate")),
                    (PROJECT, ("update", "delete")),
                )
            ),
        ),
    ]
