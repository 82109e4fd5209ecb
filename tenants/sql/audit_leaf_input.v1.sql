-- The leaf is SHA-256 over 0x00 and the length-prefixed parts of the row, as RFC 6962 hashes
-- leaves.
CREATE OR REPLACE FUNCTION audit_leaf_input(entry tenants_auditentry) RETURNS bytea
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, public, pg_temp AS $$
  SELECT '\x00'::bytea || string_agg(
           convert_to(octet_length(convert_to(part, 'UTF8'))::text || ':', 'UTF8')
           || convert_to(part, 'UTF8'), ''::bytea ORDER BY position)
  FROM unnest(ARRAY[
         entry.id::text,
         to_char(entry.occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
         entry.actor_kind, entry.actor_id, entry.actor_label, entry.action, entry.object_kind,
         entry.object_id, coalesce(entry.organization_id::text, ''), entry.facts::text
       ] || CASE WHEN entry.recorded_at IS NULL THEN '{}' ELSE ARRAY[
         to_char(entry.recorded_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
         entry.transaction_id::text] END
       ) WITH ORDINALITY AS parts(part, position)
$$;
-- reverse
DROP FUNCTION audit_leaf_input;
