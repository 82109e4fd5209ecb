-- Prices of one key that are not superseded follow each other without a gap; checked when the
-- transaction commits.
CREATE OR REPLACE FUNCTION billing_refuse_price_gap() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE gap record;
BEGIN
  SELECT * INTO gap FROM (
    SELECT upper(valid) AS ends, lead(lower(valid)) OVER (ORDER BY lower(valid)) AS follows
      FROM billing_price
     WHERE (price_book_id, size, price_group) = (NEW.price_book_id, NEW.size, NEW.price_group)
       AND cluster_id IS NOT DISTINCT FROM NEW.cluster_id AND band = NEW.band
       AND superseded_at IS NULL
  ) s WHERE follows IS NOT NULL AND ends IS DISTINCT FROM follows LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'prices of %/% would have a gap from % to %',
      NEW.size, NEW.price_group, gap.ends, gap.follows
      USING ERRCODE = 'check_violation', HINT = 'Let the next price begin where the last one ends.';
  END IF;
  RETURN NULL;
END $$;
-- reverse
-- Prices of one key that are not superseded follow each other without a gap; checked when the
-- transaction commits.
CREATE OR REPLACE FUNCTION billing_refuse_price_gap() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE gap record;
BEGIN
  SELECT * INTO gap FROM (
    SELECT upper(valid) AS ends, lead(lower(valid)) OVER (ORDER BY lower(valid)) AS follows
      FROM billing_price
     WHERE (price_book_id, size, price_group) = (NEW.price_book_id, NEW.size, NEW.price_group)
       AND cluster_id IS NOT DISTINCT FROM NEW.cluster_id
       AND superseded_at IS NULL
  ) s WHERE follows IS NOT NULL AND ends IS DISTINCT FROM follows LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'prices of %/% would have a gap from % to %',
      NEW.size, NEW.price_group, gap.ends, gap.follows
      USING ERRCODE = 'check_violation', HINT = 'Let the next price begin where the last one ends.';
  END IF;
  RETURN NULL;
END $$;
