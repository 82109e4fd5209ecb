-- Opening balances are append-only, and posted against an account of their own, which has the number
-- that the German chart SKR03 gives to balances of customers brought forward.
INSERT INTO billing_ledgeraccount (code, number, name, kind) VALUES
  ('opening_balance', '9008', 'Opening balances of customers', 'liability');
CREATE TRIGGER billing_openingbalance_refuses_update BEFORE UPDATE ON billing_openingbalance
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('an opening balance is settled by an opposite one');
CREATE TRIGGER billing_openingbalance_refuses_delete BEFORE DELETE ON billing_openingbalance
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('an opening balance is settled by an opposite one');
CREATE TRIGGER billing_openingbalance_refuses_truncate BEFORE TRUNCATE ON billing_openingbalance
  FOR EACH STATEMENT EXECUTE FUNCTION
  ledger_refuse('an opening balance is settled by an opposite one');
ALTER TABLE billing_openingbalance
  ENABLE ALWAYS TRIGGER billing_openingbalance_refuses_update,
  ENABLE ALWAYS TRIGGER billing_openingbalance_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_openingbalance_refuses_truncate;
REVOKE UPDATE, DELETE, TRUNCATE ON billing_openingbalance FROM gpu_ledger_runtime;
-- reverse
DROP TRIGGER billing_openingbalance_refuses_truncate ON billing_openingbalance;
DROP TRIGGER billing_openingbalance_refuses_delete ON billing_openingbalance;
DROP TRIGGER billing_openingbalance_refuses_update ON billing_openingbalance;
DELETE FROM billing_ledgeraccount WHERE code = 'opening_balance';
