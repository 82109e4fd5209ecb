-- The time-of-use band of the hour that begins at a moment, by the calendar of a book or of its base:
-- '' for none, NULL where the last calendar has ended. billing.domain.pricing.price_calendar has the
-- same in Python.
CREATE FUNCTION billing_band(book uuid, hour timestamptz) RETURNS text LANGUAGE sql STABLE
SET search_path = pg_catalog, public, pg_temp AS $$
  SELECT CASE WHEN c.end_at <= hour THEN NULL ELSE coalesce((
           SELECT r ->> 'band' FROM jsonb_array_elements(c.bands) r
            WHERE r -> 'days' ? CASE WHEN c.holidays ? to_char(c.local, 'YYYY-MM-DD')
                                     THEN 'holiday' ELSE to_char(c.local, 'dy') END
              AND to_char(c.local, 'HH24:MI') COLLATE "C" >= r ->> 'from'
              AND to_char(c.local, 'HH24:MI') COLLATE "C" < r ->> 'to'
            LIMIT 1), '') END
    FROM (SELECT book AS id) asked
    LEFT JOIN LATERAL (
      SELECT k.bands, k.holidays, k.end_at, hour AT TIME ZONE k.time_zone AS local
        FROM billing_pricebook b
        JOIN billing_pricecalendar k ON k.price_book_id = coalesce(b.base_book_id, b.id)
       WHERE b.id = asked.id AND k.superseded_at IS NULL AND k.begin_at <= hour
       ORDER BY k.begin_at DESC LIMIT 1) c ON true
$$;
-- A calendar stays as it was published; it is withdrawn once. A discount book has that of its base.
CREATE FUNCTION billing_check_calendar() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM billing_pricebook WHERE id = NEW.price_book_id
                AND base_book_id IS NOT NULL) THEN
    RAISE EXCEPTION 'a discount on a price book has the calendar of its base'
      USING ERRCODE = 'check_violation', HINT = 'Publish a calendar of the base book.';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER billing_pricecalendar_is_of_a_base BEFORE INSERT ON billing_pricecalendar
  FOR EACH ROW EXECUTE FUNCTION billing_check_calendar();
CREATE TRIGGER billing_pricecalendar_counts_changes AFTER INSERT OR UPDATE ON billing_pricecalendar
  FOR EACH ROW EXECUTE FUNCTION billing_count_changes();
CREATE TRIGGER billing_pricecalendar_refuses_update BEFORE UPDATE ON billing_pricecalendar
  FOR EACH ROW WHEN (
    OLD.superseded_at IS NOT NULL OR NEW.superseded_at IS NULL
    OR (OLD.id, OLD.price_book_id, OLD.time_zone, OLD.bands, OLD.holidays, OLD.country,
      OLD.subdivision, OLD.last_year, OLD.begin_at, OLD.end_at, OLD.published_at)
    IS DISTINCT FROM (NEW.id, NEW.price_book_id, NEW.time_zone, NEW.bands, NEW.holidays,
      NEW.country, NEW.subdivision, NEW.last_year, NEW.begin_at, NEW.end_at, NEW.published_at))
  EXECUTE FUNCTION ledger_refuse('a calendar is withdrawn, never edited');
CREATE TRIGGER billing_pricecalendar_refuses_delete BEFORE DELETE ON billing_pricecalendar
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a calendar is withdrawn, never deleted');
CREATE TRIGGER billing_pricecalendar_refuses_truncate BEFORE TRUNCATE ON billing_pricecalendar
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('a calendar is withdrawn, never deleted');
ALTER TABLE billing_pricecalendar
  ENABLE ALWAYS TRIGGER billing_pricecalendar_is_of_a_base,
  ENABLE ALWAYS TRIGGER billing_pricecalendar_counts_changes,
  ENABLE ALWAYS TRIGGER billing_pricecalendar_refuses_update,
  ENABLE ALWAYS TRIGGER billing_pricecalendar_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_pricecalendar_refuses_truncate;
REVOKE DELETE, TRUNCATE ON billing_pricecalendar FROM gpu_ledger_runtime;
-- reverse
DROP TRIGGER billing_pricecalendar_refuses_truncate ON billing_pricecalendar;
DROP TRIGGER billing_pricecalendar_refuses_delete ON billing_pricecalendar;
DROP TRIGGER billing_pricecalendar_refuses_update ON billing_pricecalendar;
DROP TRIGGER billing_pricecalendar_counts_changes ON billing_pricecalendar;
DROP TRIGGER billing_pricecalendar_is_of_a_base ON billing_pricecalendar;
DROP FUNCTION billing_check_calendar;
DROP FUNCTION billing_band;
