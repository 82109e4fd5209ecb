-- Only the trigger on corrections runs as the owner of this table and inside another trigger, so
-- no statement of a session changes capacity of a sealed hour, whatever its role.
CREATE OR REPLACE FUNCTION metering_keep_sealed_capacity() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  window_ids bigint[];
  offender bigint;
BEGIN
  IF pg_trigger_depth() > 1 AND current_user = (
       SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID) THEN
    RETURN NULL;
  END IF;
  IF TG_OP = 'INSERT' THEN
    window_ids := ARRAY(SELECT window_id FROM new_rows);
  ELSE
    window_ids := ARRAY(SELECT window_id FROM new_rows UNION SELECT window_id FROM old_rows);
  END IF;
  SELECT w.id INTO offender FROM metering_meteringwindow w
   WHERE w.id = ANY(window_ids) AND w.state = 'sealed' LIMIT 1;
  IF offender IS NOT NULL THEN
    RAISE EXCEPTION '% on capacity is refused: window % is sealed', TG_OP, offender
      USING ERRCODE = 'restrict_violation',
            HINT = 'Capacity of a sealed hour moves with a posted correction only.';
  END IF;
  RETURN NULL;
END $$;
-- reverse
DROP FUNCTION metering_keep_sealed_capacity;
