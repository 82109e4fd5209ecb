-- What each book prices: its own prices, and those of its base book less its discount. The price of
-- a key in the book itself goes before that of the base; readers order by is_own. Multiplying by
-- 0.01 is exact, so that the only rounding is half up to the digits of a price.
CREATE VIEW billing_book_price AS
SELECT p.id, p.price_book_id, p.size, p.price_group, p.unit_price, NULL::numeric(20,10) AS
       base_unit_price, p.valid, p.superseded_at, true AS is_own
  FROM billing_price p
 UNION ALL
SELECT p.id, d.id, p.size, p.price_group,
       round(p.unit_price * (100 - d.discount_percent) * 0.01, 10)::numeric(20,10), p.unit_price,
       p.valid, p.superseded_at, false
  FROM billing_pricebook d JOIN billing_price p ON p.price_book_id = d.base_book_id;
GRANT SELECT ON billing_book_price TO gpu_ledger_runtime;

-- Changes of the base book are changes of the prices of its discount books.
CREATE OR REPLACE VIEW billing_price_mark AS
SELECT a.organization_id,
       sum(1 + a.generation + b.generation + coalesce(base.generation, 0))::bigint AS mark
  FROM billing_pricebookassignment a JOIN billing_pricebook b ON b.id = a.price_book_id
  LEFT JOIN billing_pricebook base ON base.id = b.base_book_id
 GROUP BY a.organization_id;

-- A discount is of a book in the same currency that has no base itself, and is never changed.
CREATE OR REPLACE FUNCTION billing_check_base_book() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM billing_pricebook b
              WHERE b.id = NEW.base_book_id
                AND (b.base_book_id IS NOT NULL OR b.currency <> NEW.currency)) THEN
    RAISE EXCEPTION 'INSERT on price books is refused: a base has no base, and the same currency'
      USING ERRCODE = 'check_violation', HINT = 'Name the book that has the prices itself.';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER billing_pricebook_checks_base BEFORE INSERT ON billing_pricebook
  FOR EACH ROW WHEN (NEW.base_book_id IS NOT NULL) EXECUTE FUNCTION billing_check_base_book();
CREATE TRIGGER billing_pricebook_keeps_base BEFORE UPDATE ON billing_pricebook
  FOR EACH ROW WHEN ((OLD.base_book_id, OLD.discount_percent)
    IS DISTINCT FROM (NEW.base_book_id, NEW.discount_percent))
  EXECUTE FUNCTION ledger_refuse('a price book keeps its base and discount');
ALTER TABLE billing_pricebook
  ENABLE ALWAYS TRIGGER billing_pricebook_checks_base,
  ENABLE ALWAYS TRIGGER billing_pricebook_keeps_base;
-- reverse
DROP TRIGGER billing_pricebook_keeps_base ON billing_pricebook;
DROP TRIGGER billing_pricebook_checks_base ON billing_pricebook;
DROP FUNCTION billing_check_base_book;
CREATE OR REPLACE VIEW billing_price_mark AS
SELECT a.organization_id, sum(1 + a.generation + b.generation)::bigint AS mark
  FROM billing_pricebookassignment a JOIN billing_pricebook b ON b.id = a.price_book_id
 GROUP BY a.organization_id;
DROP VIEW billing_book_price;
