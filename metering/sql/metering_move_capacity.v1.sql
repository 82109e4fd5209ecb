-- Posted corrections move the capacity of their hours. Held units are used first, the rest was
-- idle; usage beyond both proves that there was more. A part of a claim is a part of what its
-- node offers of the claim's class. EXECUTE is revoked from PUBLIC: with it any role could make
-- the function the trigger of a table of its own, and it would run as the owner.
CREATE OR REPLACE FUNCTION metering_move_capacity() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE posted uuid[];
BEGIN
  IF TG_OP = 'INSERT' THEN
    posted := ARRAY(SELECT id FROM new_rows WHERE state = 'posted');
  ELSE
    posted := ARRAY(SELECT n.id FROM new_rows n JOIN old_rows o ON o.id = n.id
                     WHERE n.state = 'posted' AND o.state <> 'posted');
  END IF;
  IF posted = '{}' THEN
    RETURN NULL;
  END IF;
  INSERT INTO metering_capacityrecord AS k (window_id, window_start, cluster_id, node, resource,
    size, price_group, share_numerator, share_denominator, allocatable_units,
    capacity_unit_seconds, billed_unit_seconds, held_unit_seconds, idle_unit_seconds)
  SELECT m.window_id, m.window_start, m.cluster_id, m.node, m.resource, m.size, m.price_group,
         m.share_numerator, m.share_denominator, coalesce(r.allocatable_units, 0),
         after.billed + after.held + after.idle, after.billed, after.held, after.idle
    FROM (
      SELECT c.window_id, c.window_start, c.cluster_id, l.node,
             CASE WHEN starts_with(l.resource, 'claim/')
               THEN regexp_replace(l.resource, '^claim/(.*/)?([^#]*).*$', 'claim/\2')
               ELSE l.resource END AS resource,
             min(l.size) AS size,
             min(regexp_replace(l.price_group, '/burst$', '')) AS price_group,
             min(l.share_numerator) AS share_numerator,
             min(l.share_denominator) AS share_denominator,
             sum(l.unit_seconds)::bigint AS delta,
             coalesce(sum(l.unit_seconds) FILTER (WHERE c.cause = 'released'), 0)::bigint
               AS released
        FROM metering_usagecorrection c
       CROSS JOIN LATERAL jsonb_to_recordset(c.lines)
         AS l(node text, resource text, size text, price_group text, share_numerator integer,
              share_denominator integer, unit_seconds bigint)
       WHERE c.id = ANY(posted)
       GROUP BY 1, 2, 3, 4, 5) m
    LEFT JOIN metering_capacityrecord r
      ON (r.window_id, r.node, r.resource) = (m.window_id, m.node, m.resource)
   CROSS JOIN LATERAL (
     SELECT coalesce(r.billed_unit_seconds, 0) AS billed,
            coalesce(r.held_unit_seconds, 0) AS held,
            coalesce(r.idle_unit_seconds, 0) AS idle,
            least(coalesce(r.held_unit_seconds, 0), m.released) AS released) before
   CROSS JOIN LATERAL (
     SELECT before.billed + m.delta AS billed, before.held - before.released AS held,
            greatest(before.idle - m.delta + before.released, least(before.idle, 0)) AS idle) after
  ON CONFLICT (window_id, node, resource) DO UPDATE
    SET capacity_unit_seconds = excluded.capacity_unit_seconds,
        billed_unit_seconds = excluded.billed_unit_seconds,
        held_unit_seconds = excluded.held_unit_seconds,
        idle_unit_seconds = excluded.idle_unit_seconds;
  RETURN NULL;
END $$;
REVOKE EXECUTE ON FUNCTION metering_move_capacity() FROM PUBLIC;
-- reverse
DROP FUNCTION metering_move_capacity;
