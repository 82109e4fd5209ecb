-- A price or an assignment ends after the last hour it has charged.
CREATE OR REPLACE FUNCTION billing_keep_charged_hours() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE charged timestamptz;
BEGIN
  IF TG_TABLE_NAME = 'billing_price' THEN
    SELECT max(window_start) INTO charged FROM billing_charge WHERE price_id = OLD.id;
  ELSE
    SELECT window_start INTO charged FROM billing_charge
     WHERE organization_id = (to_jsonb(OLD) ->> 'organization_id')::uuid
       AND window_start >= upper(NEW.valid) AND OLD.valid @> window_start LIMIT 1;
  END IF;
  IF charged >= upper(NEW.valid) THEN
    RAISE EXCEPTION 'UPDATE on % is refused: the hour % is charged already', TG_TABLE_NAME, charged
      USING ERRCODE = 'restrict_violation', HINT = 'Let it end after the last hour it has charged.';
  END IF;
  RETURN NEW;
END $$;
-- reverse
DROP FUNCTION billing_keep_charged_hours;
