-- The key of what an exception is about, and why: alike ones of a cluster have the same.
CREATE FUNCTION metering_incident(
  cluster uuid, kind text, namespace text, subject text, details jsonb) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN md5(cluster::text || '|' || kind || '|' || namespace || '|'
  || coalesce(details->>'cause', '') || '|'
  || CASE WHEN kind = 'unknown_device' THEN coalesce(details->>'resource', '')
          WHEN kind IN ('unknown_node', 'over_capacity') THEN coalesce(details->>'node', subject)
          ELSE '' END)::uuid;
-- reverse
DROP FUNCTION metering_incident(uuid, text, text, text, jsonb);
