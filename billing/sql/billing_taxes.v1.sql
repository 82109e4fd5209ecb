-- A tax rate and a tax treatment stay as they were published; either is withdrawn, once.
CREATE TRIGGER billing_taxrate_refuses_update BEFORE UPDATE ON billing_taxrate
  FOR EACH ROW WHEN (
    OLD.withdrawn_at IS NOT NULL
    OR (OLD.id, OLD.country, OLD.category, OLD.rate, OLD.exemption_text, OLD.valid_from,
      OLD.published_at)
    IS DISTINCT FROM (NEW.id, NEW.country, NEW.category, NEW.rate, NEW.exemption_text,
      NEW.valid_from, NEW.published_at))
  EXECUTE FUNCTION ledger_refuse('a tax rate is withdrawn, never edited');
CREATE TRIGGER billing_taxrate_refuses_delete BEFORE DELETE ON billing_taxrate
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a tax rate is withdrawn, never deleted');
CREATE TRIGGER billing_taxrate_refuses_truncate BEFORE TRUNCATE ON billing_taxrate
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('tax rates are never truncated');
ALTER TABLE billing_taxrate
  ENABLE ALWAYS TRIGGER billing_taxrate_refuses_update,
  ENABLE ALWAYS TRIGGER billing_taxrate_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_taxrate_refuses_truncate;

CREATE TRIGGER billing_taxtreatment_refuses_update BEFORE UPDATE ON billing_taxtreatment
  FOR EACH ROW WHEN (
    OLD.withdrawn_at IS NOT NULL
    OR (OLD.id, OLD.organization_id, OLD.country, OLD.category, OLD.valid_from, OLD.published_at)
    IS DISTINCT FROM (NEW.id, NEW.organization_id, NEW.country, NEW.category, NEW.valid_from,
      NEW.published_at))
  EXECUTE FUNCTION ledger_refuse('a tax treatment is withdrawn, never edited');
CREATE TRIGGER billing_taxtreatment_refuses_delete BEFORE DELETE ON billing_taxtreatment
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a tax treatment is withdrawn, never deleted');
CREATE TRIGGER billing_taxtreatment_refuses_truncate BEFORE TRUNCATE ON billing_taxtreatment
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('tax treatments are never truncated');
ALTER TABLE billing_taxtreatment
  ENABLE ALWAYS TRIGGER billing_taxtreatment_refuses_update,
  ENABLE ALWAYS TRIGGER billing_taxtreatment_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_taxtreatment_refuses_truncate;
REVOKE DELETE, TRUNCATE ON billing_taxrate, billing_taxtreatment FROM gpu_ledger_runtime;
-- reverse
DROP TRIGGER billing_taxtreatment_refuses_truncate ON billing_taxtreatment;
DROP TRIGGER billing_taxtreatment_refuses_delete ON billing_taxtreatment;
DROP TRIGGER billing_taxtreatment_refuses_update ON billing_taxtreatment;
DROP TRIGGER billing_taxrate_refuses_truncate ON billing_taxrate;
DROP TRIGGER billing_taxrate_refuses_delete ON billing_taxrate;
DROP TRIGGER billing_taxrate_refuses_update ON billing_taxrate;
