-- Deliveries of documents are append-only.
CREATE TRIGGER billing_documentdelivery_refuses_update BEFORE UPDATE ON billing_documentdelivery
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a delivery stays as it was recorded');
CREATE TRIGGER billing_documentdelivery_refuses_delete BEFORE DELETE ON billing_documentdelivery
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a delivery stays as it was recorded');
CREATE TRIGGER billing_documentdelivery_refuses_truncate BEFORE TRUNCATE ON
  billing_documentdelivery FOR EACH STATEMENT EXECUTE FUNCTION
  ledger_refuse('a delivery stays as it was recorded');
ALTER TABLE billing_documentdelivery
  ENABLE ALWAYS TRIGGER billing_documentdelivery_refuses_update,
  ENABLE ALWAYS TRIGGER billing_documentdelivery_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_documentdelivery_refuses_truncate;
REVOKE UPDATE, DELETE, TRUNCATE ON billing_documentdelivery FROM gpu_ledger_runtime;
-- reverse
DROP TRIGGER billing_documentdelivery_refuses_truncate ON billing_documentdelivery;
DROP TRIGGER billing_documentdelivery_refuses_delete ON billing_documentdelivery;
DROP TRIGGER billing_documentdelivery_refuses_update ON billing_documentdelivery;
