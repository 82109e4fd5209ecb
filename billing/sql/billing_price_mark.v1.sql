-- A number for each organization with a price book, which grows with every change of its
-- assignments and of the prices in their books. Usage without a price is rated again above it.
CREATE VIEW billing_price_mark AS
SELECT a.organization_id, sum(1 + a.generation + b.generation)::bigint AS mark
  FROM billing_pricebookassignment a JOIN billing_pricebook b ON b.id = a.price_book_id
 GROUP BY a.organization_id;
GRANT SELECT ON billing_price_mark TO gpu_ledger_runtime;
-- reverse
DROP VIEW billing_price_mark;
