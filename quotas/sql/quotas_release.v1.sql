-- Releases live reservations of one organization, each for its reason. The caller holds the
-- organization's lock exclusively, and has opened its counters. A counter that has drifted is not
-- lowered below zero: that would stop admission for what the comparison repairs.
CREATE OR REPLACE FUNCTION quotas_release(
  organization uuid, reservations bigint[], reasons text[], moment timestamptz)
RETURNS integer LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE settled integer;
BEGIN
  WITH over AS MATERIALIZED (
    SELECT r.*, o.reason FROM unnest(reservations, reasons) AS o(id, reason)
      JOIN quotas_reservation r ON r.id = o.id
     WHERE r.organization_id = organization AND r.state <> 'released'),
  released AS (
    UPDATE quotas_reservation r
       SET state = 'released', released_at = moment, release_reason = o.reason
      FROM over o WHERE r.id = o.id RETURNING r.id),
  freed AS (
    SELECT l.id,
           coalesce(sum(o.units) FILTER (WHERE o.state = 'held' AND NOT o.is_burst), 0) AS held,
           coalesce(sum(o.units) FILTER (WHERE o.state = 'reserved' AND NOT o.is_burst), 0)
             AS reserved,
           coalesce(sum(o.units) FILTER (WHERE o.state = 'held' AND o.is_burst), 0) AS burst_held,
           coalesce(sum(o.units) FILTER (WHERE o.state = 'reserved' AND o.is_burst), 0)
             AS burst_reserved
      FROM over o
      JOIN quotas_quotalimit l ON l.organization_id = organization
      LEFT JOIN auth_user l_user ON l_user.id = l.user_id
     WHERE l.organization_id = o.organization_id AND l.size = o.size AND (l.project_id IS NULL
       OR l.project_id = o.project_id) AND (l.user_id IS NULL OR l_user.username = o.username)
       AND (l.cluster_id IS NULL OR l.cluster_id = o.cluster_id) AND (l.model_group = ''
       OR o.model_groups = '{}' OR l.model_group = ANY (o.model_groups))
     GROUP BY l.id),
  counted AS (
    UPDATE quotas_quotacounter c
       SET held_units = greatest(0, c.held_units - f.held),
           reserved_units = greatest(0, c.reserved_units - f.reserved),
           burst_held_units = greatest(0, c.burst_held_units - f.burst_held),
           burst_reserved_units = greatest(0, c.burst_reserved_units - f.burst_reserved)
      FROM freed f WHERE c.limit_id = f.id)
  SELECT count(*) INTO settled FROM released;
  RETURN settled;
END $$;
REVOKE EXECUTE ON FUNCTION quotas_release(uuid, bigint[], text[], timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION quotas_release(uuid, bigint[], text[], timestamptz)
  TO gpu_ledger_runtime;
-- reverse
DROP FUNCTION quotas_release;
