-- The local day of a UTC hour: that in which the hour ends, as a month begins at the hour in which
-- its local midnight lies. It has no search_path of its own, so that it is inlined.
CREATE OR REPLACE FUNCTION billing_local_day(hour timestamptz, zone text) RETURNS date
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (pg_catalog.timezone(zone, hour) + interval '59 minutes 59 seconds')::date;
-- Of what was charged before, one hour of each day, the latest first.
INSERT INTO billing_changedhour (organization_id, window_start)
SELECT c.organization_id, min(c.window_start)
  FROM (SELECT DISTINCT organization_id, window_start FROM billing_charge) c
  JOIN tenants_organization o ON o.id = c.organization_id
 GROUP BY c.organization_id, billing_local_day(c.window_start, o.time_zone)
 ORDER BY 2 DESC, 1;
-- reverse
DROP FUNCTION billing_local_day;
