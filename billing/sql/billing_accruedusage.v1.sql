-- What was accrued before is added up by organization; then each row is frozen once it is charged.
INSERT INTO billing_accruedusage
  (window_id, organization_id, window_start, used_unit_seconds, charged_unit_seconds,
   unpriced_unit_seconds, price_mark, accrued_at)
SELECT u.window_id, u.organization_id, u.window_start, u.total, coalesce(c.total, 0),
       u.total - coalesce(c.total, 0), -1, a.accrued_at
  FROM (SELECT window_id, organization_id, window_start, sum(unit_seconds)::bigint AS total
          FROM metering_sealed_usage WHERE correction_id IS NULL GROUP BY 1, 2, 3) u
  JOIN billing_accruedwindow a ON a.window_id = u.window_id
  LEFT JOIN (SELECT window_id, organization_id, sum(unit_seconds)::bigint AS total
               FROM billing_charge WHERE correction_id IS NULL GROUP BY 1, 2) c
    ON (c.window_id, c.organization_id) = (u.window_id, u.organization_id)
 WHERE u.total <> 0;
CREATE TRIGGER billing_accruedusage_refuses_update BEFORE UPDATE ON billing_accruedusage
  FOR EACH ROW WHEN (
    OLD.unpriced_unit_seconds = 0
    OR (OLD.id, OLD.window_id, OLD.organization_id, OLD.window_start, OLD.used_unit_seconds)
    IS DISTINCT FROM (NEW.id, NEW.window_id, NEW.organization_id, NEW.window_start,
      NEW.used_unit_seconds)
    OR NEW.charged_unit_seconds < OLD.charged_unit_seconds)
  EXECUTE FUNCTION ledger_refuse('use is added up once, and never charged less');
CREATE TRIGGER billing_accruedusage_refuses_delete BEFORE DELETE ON billing_accruedusage
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('accrual is never undone');
CREATE TRIGGER billing_accruedusage_refuses_truncate BEFORE TRUNCATE ON billing_accruedusage
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('accrual is never undone');
ALTER TABLE billing_accruedusage
  ENABLE ALWAYS TRIGGER billing_accruedusage_refuses_update,
  ENABLE ALWAYS TRIGGER billing_accruedusage_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_accruedusage_refuses_truncate;
REVOKE DELETE, TRUNCATE ON billing_accruedusage FROM gpu_ledger_runtime;
-- reverse
DROP TRIGGER billing_accruedusage_refuses_update ON billing_accruedusage;
DROP TRIGGER billing_accruedusage_refuses_delete ON billing_accruedusage;
DROP TRIGGER billing_accruedusage_refuses_truncate ON billing_accruedusage;
