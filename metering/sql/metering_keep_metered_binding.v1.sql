-- A binding does not change for hours that are sealed.
CREATE OR REPLACE FUNCTION metering_keep_metered_binding() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE hours tstzmultirange := tstzmultirange(OLD.valid);
BEGIN
  IF TG_OP = 'UPDATE' AND (OLD.cluster_id, OLD.namespace, OLD.project_id, OLD.default_owner_id)
       IS NOT DISTINCT FROM
       (NEW.cluster_id, NEW.namespace, NEW.project_id, NEW.default_owner_id) THEN
    hours := (hours + tstzmultirange(NEW.valid)) - (hours * tstzmultirange(NEW.valid));
  END IF;
  IF EXISTS (SELECT FROM metering_meteringwindow w WHERE w.cluster_id = OLD.cluster_id
    AND w.state = 'sealed'
                AND w.start_at >= coalesce(lower(hours), '-infinity')
                AND w.start_at < coalesce(upper(hours), 'infinity') AND hours @> w.start_at) THEN
    RAISE EXCEPTION '% on bindings is refused: hours of % are sealed', TG_OP, OLD.namespace
      USING ERRCODE = 'restrict_violation',
            HINT = 'End the binding at a coming hour, and bind the namespace anew from there.';
  END IF;
  RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
-- reverse
DROP FUNCTION metering_keep_metered_binding;
