-- Reminders are append-only; a stop is continued once, and otherwise stays.
CREATE TRIGGER billing_reminder_refuses_update BEFORE UPDATE ON billing_reminder
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a reminder stays as it was sent');
CREATE TRIGGER billing_reminder_refuses_delete BEFORE DELETE ON billing_reminder
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a reminder stays as it was sent');
CREATE TRIGGER billing_reminder_refuses_truncate BEFORE TRUNCATE ON billing_reminder
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('a reminder stays as it was sent');
ALTER TABLE billing_reminder
  ENABLE ALWAYS TRIGGER billing_reminder_refuses_update,
  ENABLE ALWAYS TRIGGER billing_reminder_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_reminder_refuses_truncate;
CREATE TRIGGER billing_reminderstop_refuses_update BEFORE UPDATE ON billing_reminderstop
  FOR EACH ROW WHEN (
    OLD.continued_at IS NOT NULL
    OR to_jsonb(OLD) - '{continued_at,continued_by,continue_reason}'::text[]
       <> to_jsonb(NEW) - '{continued_at,continued_by,continue_reason}'::text[])
  EXECUTE FUNCTION ledger_refuse('a stop is continued once');
CREATE TRIGGER billing_reminderstop_refuses_delete BEFORE DELETE ON billing_reminderstop
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a stop is continued');
CREATE TRIGGER billing_reminderstop_refuses_truncate BEFORE TRUNCATE ON billing_reminderstop
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('a stop is continued');
ALTER TABLE billing_reminderstop
  ENABLE ALWAYS TRIGGER billing_reminderstop_refuses_update,
  ENABLE ALWAYS TRIGGER billing_reminderstop_refuses_delete,
  ENABLE ALWAYS TRIGGER billing_reminderstop_refuses_truncate;
REVOKE UPDATE, DELETE, TRUNCATE ON billing_reminder FROM gpu_ledger_runtime;
REVOKE DELETE, TRUNCATE ON billing_reminderstop FROM gpu_ledger_runtime;
-- reverse
DROP TRIGGER billing_reminderstop_refuses_truncate ON billing_reminderstop;
DROP TRIGGER billing_reminderstop_refuses_delete ON billing_reminderstop;
DROP TRIGGER billing_reminderstop_refuses_update ON billing_reminderstop;
DROP TRIGGER billing_reminder_refuses_truncate ON billing_reminder;
DROP TRIGGER billing_reminder_refuses_delete ON billing_reminder;
DROP TRIGGER billing_reminder_refuses_update ON billing_reminder;
