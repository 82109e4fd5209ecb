-- Which book bills an organization, and for which hours: its own, else that of its customer class,
-- else the default book; at each hour at most one. Books in another currency do not apply. Readers
-- filter by organization, which each of the three parts is read by.
INSERT INTO billing_customerclass (id, slug, name, created_at) VALUES
  ('01933b5c-0000-7000-8000-000000000001', 'internal', 'Internal', '2026-01-01T00:00:00Z'),
  ('01933b5c-0000-7000-8000-000000000002', 'academic', 'Academic', '2026-01-01T00:00:00Z'),
  ('01933b5c-0000-7000-8000-000000000003', 'external', 'External', '2026-01-01T00:00:00Z');

CREATE VIEW billing_organization_book AS
SELECT a.id, a.organization_id, a.price_book_id, NULL::uuid AS membership_id, 1 AS precedence,
       a.valid
  FROM billing_pricebookassignment a
 WHERE a.organization_id IS NOT NULL AND a.price_book_id IS NOT NULL AND a.superseded_at IS NULL
 UNION ALL
SELECT a.id, m.organization_id, a.price_book_id, m.id, 2, left_over.valid
  FROM billing_customerclassmembership m
  JOIN billing_pricebookassignment a
    ON a.customer_class_id = m.customer_class_id AND a.valid && m.valid
  JOIN tenants_organization o ON o.id = m.organization_id
  JOIN billing_pricebook b ON b.id = a.price_book_id AND b.currency = o.billing_currency
 CROSS JOIN LATERAL unnest(tstzmultirange(m.valid * a.valid) - coalesce((
         SELECT range_agg(own.valid) FROM billing_pricebookassignment own
          WHERE own.organization_id = m.organization_id AND own.price_book_id IS NOT NULL
            AND own.superseded_at IS NULL), '{}')) AS left_over(valid)
 WHERE m.superseded_at IS NULL AND a.superseded_at IS NULL
 UNION ALL
SELECT a.id, o.id, a.price_book_id, NULL, 3, left_over.valid
  FROM billing_pricebookassignment a
  JOIN billing_pricebook b ON b.id = a.price_book_id
  JOIN tenants_organization o ON o.billing_currency = b.currency
 CROSS JOIN LATERAL unnest(tstzmultirange(a.valid) - coalesce((
         SELECT range_agg(own.valid) FROM billing_pricebookassignment own
          WHERE own.organization_id = o.id AND own.price_book_id IS NOT NULL
            AND own.superseded_at IS NULL), '{}')
       - coalesce((
         SELECT range_agg(m.valid * c.valid)
           FROM billing_customerclassmembership m
           JOIN billing_pricebookassignment c
             ON c.customer_class_id = m.customer_class_id AND c.valid && m.valid
           JOIN billing_pricebook d ON d.id = c.price_book_id AND d.currency = o.billing_currency
          WHERE m.organization_id = o.id AND m.superseded_at IS NULL
            AND c.superseded_at IS NULL), '{}')) AS left_over(valid)
 WHERE a.organization_id IS NULL AND a.customer_class_id IS NULL AND a.superseded_at IS NULL;
GRANT SELECT ON billing_organization_book TO gpu_ledger_runtime;

-- It grows with every change of assignments, of memberships and of prices in their books.
CREATE OR REPLACE VIEW billing_price_mark AS
WITH marked AS (
  SELECT a.id, a.organization_id, a.customer_class_id,
         1 + a.generation + coalesce(b.generation, 0) + coalesce(base.generation, 0) AS mark
    FROM billing_pricebookassignment a
    LEFT JOIN billing_pricebook b ON b.id = a.price_book_id
    LEFT JOIN billing_pricebook base ON base.id = b.base_book_id
)
SELECT organization_id, sum(mark)::bigint AS mark
  FROM (SELECT organization_id, mark FROM marked WHERE organization_id IS NOT NULL
         UNION ALL
        SELECT organization_id, 1 + generation FROM billing_customerclassmembership
         UNION ALL
        SELECT m.organization_id, a.mark
          FROM (SELECT DISTINCT organization_id, customer_class_id
                  FROM billing_customerclassmembership) m
          JOIN marked a USING (customer_class_id)
         UNION ALL
        SELECT o.id, a.mark
          FROM marked a CROSS JOIN tenants_organization o
         WHERE a.organization_id IS NULL AND a.customer_class_id IS NULL) every_change
 GROUP BY organization_id;

-- A price, an assignment or a membership ends after the last hour that was charged by it.
CREATE OR REPLACE FUNCTION billing_keep_charged_hours() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE charged timestamptz;
BEGIN
  IF TG_TABLE_NAME = 'billing_price' THEN
    SELECT max(window_start) INTO charged FROM billing_charge WHERE price_id = OLD.id;
  ELSE
    SELECT c.window_start INTO charged
      FROM billing_organization_book k
     CROSS JOIN LATERAL (
       SELECT c.window_start FROM billing_charge c
        WHERE c.organization_id = k.organization_id
          AND c.window_start >= greatest(upper(NEW.valid), lower(k.valid))
          AND k.valid @> c.window_start LIMIT 1) c
     WHERE OLD.id IN (k.id, k.membership_id) LIMIT 1;
  END IF;
  IF charged >= upper(NEW.valid) THEN
    RAISE EXCEPTION 'UPDATE on % is refused: the hour % is charged already', TG_TABLE_NAME, charged
      USING ERRCODE = 'restrict_violation', HINT = 'Let it end after the last hour it has charged.';
  END IF;
  RETURN NEW;
END $$;

-- An assignment keeps its customer class, too.
DROP TRIGGER billing_pricebookassignment_refuses_update ON billing_pricebookassignment;
CREATE TRIGGER billing_pricebookassignment_refuses_update BEFORE UPDATE ON
  billing_pricebookassignment
  FOR EACH ROW WHEN (
    OLD.superseded_at IS NOT NULL
    OR (NOT upper_inf(OLD.valid) OR NEW.superseded_at IS NOT NULL)
      AND (OLD.valid IS DISTINCT FROM NEW.valid OR NEW.superseded_at IS NULL)
    OR (OLD.id, OLD.organization_id, OLD.customer_class_id, OLD.price_book_id, lower(OLD.valid),
      OLD.published_at, OLD.replaces_id)
    IS DISTINCT FROM (NEW.id, NEW.organization_id, NEW.customer_class_id, NEW.price_book_id,
      lower(NEW.valid), NEW.published_at, NEW.replaces_id))
  EXECUTE FUNCTION ledger_refuse('an assignment is closed or superseded, never edited');
ALTER TABLE billing_pricebookassignment
  ENABLE ALWAYS TRIGGER billing_pricebookassignment_refuses_update;

CREATE TRIGGER billing_customerclassmembership_refuses_update BEFORE UPDATE ON
  billing_customerclassmembership
  FOR EACH ROW WHEN (
    OLD.superseded_at IS NOT NULL
    OR (NOT upper_inf(OLD.valid) OR NEW.superseded_at IS NOT NULL)
      AND (OLD.valid IS DISTINCT FROM NEW.valid OR NEW.superseded_at IS NULL)
    OR (OLD.id, OLD.organization_id, OLD.customer_class_id, lower(OLD.valid), OLD.published_at,
      OLD.replaces_id)
    IS DISTINCT FROM (NEW.id, NEW.organization_id, NEW.customer_class_id, lower(NEW.valid),
      NEW.published_at, NEW.replaces_id))
  EXECUTE FUNCTION ledger_refuse('a membership is closed or superseded, never edited');
CREATE TRIGGER billing_customerclassmembership_refuses_delete BEFORE DELETE ON
  billing_customerclassmembership
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a membership is closed, never deleted');
CREATE TRIGGER billing_customerclassmembership_refuses_truncate BEFORE TRUNCATE ON
  billing_customerclassmembership
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('memberships are never truncated');
CREATE TRIGGER billing_customerclassmembership_keeps_charged BEFORE UPDATE ON
  billing_customerclassmembership
  FOR EACH ROW WHEN (NEW.valid IS DISTINCT FROM OLD.valid)
  EXECUTE FUNCTION billing_keep_charged_hours();
CREATE TRIGGER billing_customerclassmembership_counts_changes BEFORE UPDATE ON
  billing_customerclassmembership FOR EACH ROW EXECUTE FUNCTION billing_count_changes();
ALTER TABLE billing_customerclassmembership
  ENABLE ALWAYS TRIGGER billing_customerclassmembership_refuses_update,
  ENABLE ALWAYS TRIGGER billing_customerclassmembership_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_customerclassmembership_refuses_truncate,
  ENABLE ALWAYS TRIGGER billing_customerclassmembership_keeps_charged,
  ENABLE ALWAYS TRIGGER billing_customerclassmembership_counts_changes;
REVOKE DELETE, TRUNCATE ON billing_customerclassmembership FROM gpu_ledger_runtime;
-- reverse
GRANT DELETE ON billing_customerclassmembership TO gpu_ledger_runtime;
DROP TRIGGER billing_customerclassmembership_counts_changes ON billing_customerclassmembership;
DROP TRIGGER billing_customerclassmembership_keeps_charged ON billing_customerclassmembership;
DROP TRIGGER billing_customerclassmembership_refuses_truncate ON billing_customerclassmembership;
DROP TRIGGER billing_customerclassmembership_refuses_delete ON billing_customerclassmembership;
DROP TRIGGER billing_customerclassmembership_refuses_update ON billing_customerclassmembership;
DROP TRIGGER billing_pricebookassignment_refuses_update ON billing_pricebookassignment;
CREATE TRIGGER billing_pricebookassignment_refuses_update BEFORE UPDATE ON
  billing_pricebookassignment
  FOR EACH ROW WHEN (
    OLD.superseded_at IS NOT NULL
    OR (NOT upper_inf(OLD.valid) OR NEW.superseded_at IS NOT NULL)
      AND (OLD.valid IS DISTINCT FROM NEW.valid OR NEW.superseded_at IS NULL)
    OR (OLD.id, OLD.organization_id, OLD.price_book_id, lower(OLD.valid), OLD.published_at,
      OLD.replaces_id)
    IS DISTINCT FROM (NEW.id, NEW.organization_id, NEW.price_book_id, lower(NEW.valid),
      NEW.published_at, NEW.replaces_id))
  EXECUTE FUNCTION ledger_refuse('an assignment is closed or superseded, never edited');
ALTER TABLE billing_pricebookassignment
  ENABLE ALWAYS TRIGGER billing_pricebookassignment_refuses_update;
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
CREATE OR REPLACE VIEW billing_price_mark AS
SELECT a.organization_id,
       sum(1 + a.generation + b.generation + coalesce(base.generation, 0))::bigint AS mark
  FROM billing_pricebookassignment a JOIN billing_pricebook b ON b.id = a.price_book_id
  LEFT JOIN billing_pricebook base ON base.id = b.base_book_id
 GROUP BY a.organization_id;
DROP VIEW billing_organization_book;
