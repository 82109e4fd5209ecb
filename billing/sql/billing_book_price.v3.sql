-- As v2, with the time-of-use band of each price.
CREATE OR REPLACE VIEW billing_book_price AS
SELECT p.id, p.price_book_id, p.size, p.price_group, p.unit_price, NULL::numeric(20,10) AS
       base_unit_price, p.valid, p.superseded_at, true AS is_own, p.cluster_id, p.band
  FROM billing_price p
 UNION ALL
SELECT p.id, d.id, p.size, p.price_group,
       round(p.unit_price * (100 - d.discount_percent) * 0.01, 10)::numeric(20,10), p.unit_price,
       p.valid, p.superseded_at, false, p.cluster_id, p.band
  FROM billing_pricebook d JOIN billing_price p ON p.price_book_id = d.base_book_id;
-- reverse
DROP VIEW billing_book_price;
CREATE VIEW billing_book_price AS
SELECT p.id, p.price_book_id, p.size, p.price_group, p.unit_price, NULL::numeric(20,10) AS
       base_unit_price, p.valid, p.superseded_at, true AS is_own, p.cluster_id
  FROM billing_price p
 UNION ALL
SELECT p.id, d.id, p.size, p.price_group,
       round(p.unit_price * (100 - d.discount_percent) * 0.01, 10)::numeric(20,10), p.unit_price,
       p.valid, p.superseded_at, false, p.cluster_id
  FROM billing_pricebook d JOIN billing_price p ON p.price_book_id = d.base_book_id;
GRANT SELECT ON billing_book_price TO gpu_ledger_runtime;
