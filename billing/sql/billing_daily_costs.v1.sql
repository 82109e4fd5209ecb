-- The local day of a UTC hour: that in which the hour ends, as a month begins at the hour in which
-- its local midnight lies. It has no search_path of its own, so that it is inlined.
CREATE OR REPLACE FUNCTION billing_local_day(hour timestamptz, zone text) RETURNS date
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (pg_catalog.timezone(zone, hour) + interval '59 minutes 59 seconds')::date;
-- Charges of an hour and the note that it changed commit together: a transaction that sees the note sees its
-- charges, however late they commit.
CREATE OR REPLACE FUNCTION billing_note_changed_hours() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  INSERT INTO billing_changedhour (organization_id, window_start)
  SELECT DISTINCT r.organization_id, r.window_start FROM new_rows r;
  RETURN NULL;
END $$;
CREATE TRIGGER billing_charge_notes_hours AFTER INSERT ON billing_charge REFERENCING NEW TABLE
  AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION billing_note_changed_hours();
ALTER TABLE billing_charge ENABLE ALWAYS TRIGGER billing_charge_notes_hours;
-- Of what was charged before, one hour of each day, the latest first.
INSERT INTO billing_changedhour (organization_id, window_start)
SELECT c.organization_id, min(c.window_start)
  FROM (SELECT DISTINCT organization_id, window_start FROM billing_charge) c
  JOIN tenants_organization o ON o.id = c.organization_id
 GROUP BY c.organization_id, billing_local_day(c.window_start, o.time_zone)
 ORDER BY 2 DESC, 1;
-- reverse
DROP TRIGGER billing_charge_notes_hours ON billing_charge;
DROP FUNCTION billing_note_changed_hours;
DROP FUNCTION billing_local_day;
