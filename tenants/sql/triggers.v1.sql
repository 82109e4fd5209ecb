-- Triggers that keep ledgers, decisions and access rights, and what the runtime role may not do.
-- All are ENABLE ALWAYS, so that they also fire for a superuser and under
-- session_replication_role = replica; the runtime role owns no table and cannot disable them.

CREATE CONSTRAINT TRIGGER auth_user_is_audited AFTER INSERT OR DELETE ON auth_user DEFERRABLE
  INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION audit_require_entry('user');
CREATE CONSTRAINT TRIGGER auth_user_change_is_audited AFTER UPDATE ON auth_user DEFERRABLE
  INITIALLY DEFERRED
  FOR EACH ROW WHEN (to_jsonb(OLD) - 'last_login' IS DISTINCT FROM to_jsonb(NEW) - 'last_login')
  EXECUTE FUNCTION audit_require_entry('user');
CREATE TRIGGER auth_user_name_is_plain BEFORE INSERT OR UPDATE OF username ON auth_user
  FOR EACH ROW EXECUTE FUNCTION user_name_is_plain();
ALTER TABLE auth_user
  ENABLE ALWAYS TRIGGER auth_user_is_audited,
  ENABLE ALWAYS TRIGGER auth_user_change_is_audited,
  ENABLE ALWAYS TRIGGER auth_user_name_is_plain;

CREATE CONSTRAINT TRIGGER auth_user_groups_is_audited AFTER INSERT OR DELETE ON auth_user_groups
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION audit_require_entry('');
CREATE CONSTRAINT TRIGGER auth_user_groups_change_is_audited AFTER UPDATE ON auth_user_groups
  DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW WHEN (to_jsonb(OLD) - '' IS DISTINCT FROM to_jsonb(NEW) - '')
  EXECUTE FUNCTION audit_require_entry('');
ALTER TABLE auth_user_groups
  ENABLE ALWAYS TRIGGER auth_user_groups_is_audited,
  ENABLE ALWAYS TRIGGER auth_user_groups_change_is_audited;

CREATE CONSTRAINT TRIGGER auth_user_user_permissions_is_audited AFTER INSERT OR DELETE ON
  auth_user_user_permissions DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION audit_require_entry('');
CREATE CONSTRAINT TRIGGER auth_user_user_permissions_change_is_audited AFTER UPDATE ON
  auth_user_user_permissions DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW WHEN (to_jsonb(OLD) - '' IS DISTINCT FROM to_jsonb(NEW) - '')
  EXECUTE FUNCTION audit_require_entry('');
ALTER TABLE auth_user_user_permissions
  ENABLE ALWAYS TRIGGER auth_user_user_permissions_is_audited,
  ENABLE ALWAYS TRIGGER auth_user_user_permissions_change_is_audited;

-- What was requested is what is decided on, and it ends no later.
CREATE TRIGGER tenants_accountchange_refuses_update BEFORE UPDATE ON tenants_accountchange
  FOR EACH ROW WHEN (
    (OLD.id, OLD.kind, OLD.subject_id, OLD.value, OLD.email, OLD.username, OLD.requested_by_id,
      OLD.requested_at)
    IS DISTINCT FROM (NEW.id, NEW.kind, NEW.subject_id, NEW.value, NEW.email, NEW.username,
      NEW.requested_by_id, NEW.requested_at)
    OR NEW.expires_at > OLD.expires_at OR (OLD.state <> 'open' AND OLD.* IS DISTINCT FROM NEW.*))
  EXECUTE FUNCTION ledger_refuse('what was requested and decided stays');
CREATE TRIGGER tenants_accountchange_refuses_delete BEFORE DELETE ON tenants_accountchange
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('decisions are kept');
CREATE TRIGGER tenants_accountchange_refuses_truncate BEFORE TRUNCATE ON tenants_accountchange
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('decisions are kept');
ALTER TABLE tenants_accountchange
  ENABLE ALWAYS TRIGGER tenants_accountchange_refuses_update,
  ENABLE ALWAYS TRIGGER tenants_accountchange_refuses_delete,
  ENABLE ALWAYS TRIGGER tenants_accountchange_refuses_truncate;

CREATE CONSTRAINT TRIGGER tenants_apitoken_is_audited AFTER INSERT OR DELETE ON tenants_apitoken
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION audit_require_entry('api_token');
CREATE CONSTRAINT TRIGGER tenants_apitoken_change_is_audited AFTER UPDATE ON tenants_apitoken
  DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW WHEN (
    to_jsonb(OLD) - 'last_used_at' IS DISTINCT FROM to_jsonb(NEW) - 'last_used_at')
  EXECUTE FUNCTION audit_require_entry('api_token');
ALTER TABLE tenants_apitoken
  ENABLE ALWAYS TRIGGER tenants_apitoken_is_audited,
  ENABLE ALWAYS TRIGGER tenants_apitoken_change_is_audited;

CREATE TRIGGER tenants_auditentry_refuses_update BEFORE UPDATE ON tenants_auditentry
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('the audit trail is append-only');
CREATE TRIGGER tenants_auditentry_refuses_delete BEFORE DELETE ON tenants_auditentry
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('the audit trail is append-only');
CREATE TRIGGER tenants_auditentry_refuses_truncate BEFORE TRUNCATE ON tenants_auditentry
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('the audit trail is append-only');
CREATE TRIGGER tenants_auditentry_leaf BEFORE INSERT ON tenants_auditentry
  FOR EACH ROW EXECUTE FUNCTION audit_set_leaf();
ALTER TABLE tenants_auditentry
  ENABLE ALWAYS TRIGGER tenants_auditentry_refuses_update,
  ENABLE ALWAYS TRIGGER tenants_auditentry_refuses_delete,
  ENABLE ALWAYS TRIGGER tenants_auditentry_refuses_truncate,
  ENABLE ALWAYS TRIGGER tenants_auditentry_leaf;

-- What was offered is what is accepted, and it ends no later. Attempts may still be counted.
CREATE TRIGGER tenants_invitation_refuses_update BEFORE UPDATE ON tenants_invitation
  FOR EACH ROW WHEN (
    (OLD.id, OLD.email, OLD.role, OLD.organization_id, OLD.project_id, OLD.digest,
      OLD.invited_by_id, OLD.created_at)
    IS DISTINCT FROM (NEW.id, NEW.email, NEW.role, NEW.organization_id, NEW.project_id,
      NEW.digest, NEW.invited_by_id, NEW.created_at)
    OR NEW.expires_at > OLD.expires_at
    OR (coalesce(OLD.accepted_at, OLD.withdrawn_at) IS NOT NULL AND to_jsonb(OLD) - 'attempts' IS
      DISTINCT FROM to_jsonb(NEW) - 'attempts'))
  EXECUTE FUNCTION ledger_refuse('what was requested and decided stays');
CREATE TRIGGER tenants_invitation_refuses_delete BEFORE DELETE ON tenants_invitation
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('decisions are kept');
CREATE TRIGGER tenants_invitation_refuses_truncate BEFORE TRUNCATE ON tenants_invitation
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('decisions are kept');
ALTER TABLE tenants_invitation
  ENABLE ALWAYS TRIGGER tenants_invitation_refuses_update,
  ENABLE ALWAYS TRIGGER tenants_invitation_refuses_delete,
  ENABLE ALWAYS TRIGGER tenants_invitation_refuses_truncate;

CREATE CONSTRAINT TRIGGER tenants_membership_is_audited AFTER INSERT OR DELETE ON
  tenants_membership DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION audit_require_entry('membership');
CREATE CONSTRAINT TRIGGER tenants_membership_change_is_audited AFTER UPDATE ON tenants_membership
  DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW WHEN (to_jsonb(OLD) - '' IS DISTINCT FROM to_jsonb(NEW) - '')
  EXECUTE FUNCTION audit_require_entry('membership');
ALTER TABLE tenants_membership
  ENABLE ALWAYS TRIGGER tenants_membership_is_audited,
  ENABLE ALWAYS TRIGGER tenants_membership_change_is_audited;

CREATE TRIGGER tenants_verification_begins BEFORE INSERT ON tenants_verification
  FOR EACH ROW EXECUTE FUNCTION verification_begin();
CREATE TRIGGER tenants_verification_goes_on BEFORE UPDATE ON tenants_verification
  FOR EACH ROW EXECUTE FUNCTION verification_go_on();
CREATE TRIGGER tenants_verification_refuses_update BEFORE UPDATE ON tenants_verification
  FOR EACH ROW WHEN (OLD.ended_at IS NOT NULL)
  EXECUTE FUNCTION ledger_refuse('a verification that has ended is kept');
CREATE TRIGGER tenants_verification_refuses_delete BEFORE DELETE ON tenants_verification
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('verifications are kept');
CREATE TRIGGER tenants_verification_refuses_truncate BEFORE TRUNCATE ON tenants_verification
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('verifications are kept');
ALTER TABLE tenants_verification
  ENABLE ALWAYS TRIGGER tenants_verification_begins,
  ENABLE ALWAYS TRIGGER tenants_verification_goes_on,
  ENABLE ALWAYS TRIGGER tenants_verification_refuses_update,
  ENABLE ALWAYS TRIGGER tenants_verification_refuses_delete,
  ENABLE ALWAYS TRIGGER tenants_verification_refuses_truncate;

-- No statement of the service names the id of an audit entry or a verification, so it always
-- comes from the sequence. Only the owner records which migrations were applied.
REVOKE UPDATE, DELETE, TRUNCATE ON tenants_auditentry FROM gpu_ledger_runtime;
REVOKE INSERT, UPDATE, DELETE ON django_migrations FROM gpu_ledger_runtime;
REVOKE INSERT ON tenants_auditentry FROM gpu_ledger_runtime;
GRANT INSERT (occurred_at, actor_kind, actor_id, actor_label, action, object_kind, object_id,
  organization_id, facts, leaf, recorded_at, transaction_id) ON tenants_auditentry TO
  gpu_ledger_runtime;
REVOKE DELETE ON auth_user, tenants_apitoken FROM gpu_ledger_runtime;
REVOKE INSERT ON tenants_verification FROM gpu_ledger_runtime;
GRANT INSERT (started_at, ended_at, checks, check_name, is_nightly, cursor, counts, differences,
  difference_count, audit_count, audit_digest) ON tenants_verification TO gpu_ledger_runtime;
REVOKE UPDATE, DELETE ON tenants_secrethost FROM gpu_ledger_runtime;
GRANT INSERT (begun_by, accepted_entry_id) ON tenants_verification TO gpu_ledger_runtime;
REVOKE DELETE, TRUNCATE ON tenants_accountchange FROM gpu_ledger_runtime;
REVOKE DELETE, TRUNCATE ON tenants_invitation FROM gpu_ledger_runtime;
-- reverse
DROP TRIGGER auth_user_is_audited ON auth_user;
DROP TRIGGER auth_user_change_is_audited ON auth_user;
DROP TRIGGER auth_user_name_is_plain ON auth_user;
DROP TRIGGER auth_user_groups_is_audited ON auth_user_groups;
DROP TRIGGER auth_user_groups_change_is_audited ON auth_user_groups;
DROP TRIGGER auth_user_user_permissions_is_audited ON auth_user_user_permissions;
DROP TRIGGER auth_user_user_permissions_change_is_audited ON auth_user_user_permissions;
DROP TRIGGER tenants_accountchange_refuses_update ON tenants_accountchange;
DROP TRIGGER tenants_accountchange_refuses_delete ON tenants_accountchange;
DROP TRIGGER tenants_accountchange_refuses_truncate ON tenants_accountchange;
DROP TRIGGER tenants_apitoken_is_audited ON tenants_apitoken;
DROP TRIGGER tenants_apitoken_change_is_audited ON tenants_apitoken;
DROP TRIGGER tenants_auditentry_refuses_update ON tenants_auditentry;
DROP TRIGGER tenants_auditentry_refuses_delete ON tenants_auditentry;
DROP TRIGGER tenants_auditentry_refuses_truncate ON tenants_auditentry;
DROP TRIGGER tenants_auditentry_leaf ON tenants_auditentry;
DROP TRIGGER tenants_invitation_refuses_update ON tenants_invitation;
DROP TRIGGER tenants_invitation_refuses_delete ON tenants_invitation;
DROP TRIGGER tenants_invitation_refuses_truncate ON tenants_invitation;
DROP TRIGGER tenants_membership_is_audited ON tenants_membership;
DROP TRIGGER tenants_membership_change_is_audited ON tenants_membership;
DROP TRIGGER tenants_verification_begins ON tenants_verification;
DROP TRIGGER tenants_verification_goes_on ON tenants_verification;
DROP TRIGGER tenants_verification_refuses_update ON tenants_verification;
DROP TRIGGER tenants_verification_refuses_delete ON tenants_verification;
DROP TRIGGER tenants_verification_refuses_truncate ON tenants_verification;
REVOKE INSERT (occurred_at, actor_kind, actor_id, actor_label, action, object_kind, object_id,
  organization_id, facts, leaf, recorded_at, transaction_id) ON tenants_auditentry FROM
  gpu_ledger_runtime;
REVOKE INSERT (started_at, ended_at, checks, check_name, is_nightly, cursor, counts, differences,
  difference_count, audit_count, audit_digest) ON tenants_verification FROM gpu_ledger_runtime;
REVOKE INSERT (begun_by, accepted_entry_id) ON tenants_verification FROM gpu_ledger_runtime;
GRANT UPDATE, DELETE ON tenants_auditentry TO gpu_ledger_runtime;
GRANT INSERT, UPDATE, DELETE ON django_migrations TO gpu_ledger_runtime;
GRANT INSERT ON tenants_auditentry TO gpu_ledger_runtime;
GRANT DELETE ON auth_user, tenants_apitoken TO gpu_ledger_runtime;
GRANT INSERT ON tenants_verification TO gpu_ledger_runtime;
GRANT UPDATE, DELETE ON tenants_secrethost TO gpu_ledger_runtime;
GRANT DELETE ON tenants_accountchange TO gpu_ledger_runtime;
GRANT DELETE ON tenants_invitation TO gpu_ledger_runtime;
