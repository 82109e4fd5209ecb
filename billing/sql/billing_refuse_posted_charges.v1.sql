-- A charge is added without a line, to an open period.
CREATE OR REPLACE FUNCTION billing_refuse_posted_charges() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM new_rows r LEFT JOIN billing_billingperiod p ON p.id = r.period_id
              WHERE r.line_id IS NOT NULL OR p.state IS DISTINCT FROM 'open') THEN
    RAISE EXCEPTION 'INSERT on charges is refused: a charge comes unbilled, to an open period'
      USING ERRCODE = 'restrict_violation', HINT = 'Post it to the next open period.';
  END IF;
  RETURN NULL;
END $$;
-- reverse
DROP FUNCTION billing_refuse_posted_charges;
