-- Triggers that keep grants, plans and decisions, and what the runtime role may not do.

-- Of an ended step only its Job may still be resumed.
CREATE TRIGGER quotas_preemptionaction_refuses_update BEFORE UPDATE ON quotas_preemptionaction
  FOR EACH ROW WHEN (
    (OLD.id, OLD.plan_id, OLD.victim, OLD.cluster_id, OLD.namespace, OLD.pod_name, OLD.pod_uid,
      OLD.controller, OLD.project_id, OLD.username, OLD.priority, OLD.is_burst, OLD.units,
      OLD.started_at, OLD.reason)
    IS DISTINCT FROM (NEW.id, NEW.plan_id, NEW.victim, NEW.cluster_id, NEW.namespace,
      NEW.pod_name, NEW.pod_uid, NEW.controller, NEW.project_id, NEW.username, NEW.priority,
      NEW.is_burst, NEW.units, NEW.started_at, NEW.reason)
    OR (OLD.state IN ('freed', 'needless') AND OLD.state <> NEW.state)
    OR OLD.resumed_at IS NOT NULL)
  EXECUTE FUNCTION ledger_refuse('a step is about the pod it was planned for, and ends once');
CREATE TRIGGER quotas_preemptionaction_refuses_delete BEFORE DELETE ON quotas_preemptionaction
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('steps are kept for ever');
CREATE TRIGGER quotas_preemptionaction_refuses_truncate BEFORE TRUNCATE ON quotas_preemptionaction
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('steps are kept for ever');
ALTER TABLE quotas_preemptionaction
  ENABLE ALWAYS TRIGGER quotas_preemptionaction_refuses_update,
  ENABLE ALWAYS TRIGGER quotas_preemptionaction_refuses_delete,
  ENABLE ALWAYS TRIGGER quotas_preemptionaction_refuses_truncate;

-- What was shown before a plan ran can be looked up after it; an ended plan keeps its outcome.
CREATE TRIGGER quotas_preemptionplan_refuses_update BEFORE UPDATE ON quotas_preemptionplan
  FOR EACH ROW WHEN (
    OLD.state IN ('done', 'stopped', 'expired')
    OR (OLD.id, OLD.organization_id, OLD.reason, OLD.overage, OLD.remainders, OLD.planned_by,
      OLD.created_at)
    IS DISTINCT FROM (NEW.id, NEW.organization_id, NEW.reason, NEW.overage, NEW.remainders,
      NEW.planned_by, NEW.created_at))
  EXECUTE FUNCTION ledger_refuse('a plan is what was shown, and ends once');
CREATE TRIGGER quotas_preemptionplan_refuses_delete BEFORE DELETE ON quotas_preemptionplan
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('plans are kept for ever');
CREATE TRIGGER quotas_preemptionplan_refuses_truncate BEFORE TRUNCATE ON quotas_preemptionplan
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('plans are kept for ever');
ALTER TABLE quotas_preemptionplan
  ENABLE ALWAYS TRIGGER quotas_preemptionplan_refuses_update,
  ENABLE ALWAYS TRIGGER quotas_preemptionplan_refuses_delete,
  ENABLE ALWAYS TRIGGER quotas_preemptionplan_refuses_truncate;

-- A cancelled window stays cancelled, with its times.
CREATE TRIGGER quotas_protectedwindow_refuses_delete BEFORE DELETE ON quotas_protectedwindow
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('protected windows are kept for ever');
CREATE TRIGGER quotas_protectedwindow_refuses_truncate BEFORE TRUNCATE ON quotas_protectedwindow
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('protected windows are kept for ever');
CREATE TRIGGER quotas_protectedwindow_refuses_update BEFORE UPDATE ON quotas_protectedwindow
  FOR EACH ROW WHEN (
    (OLD.id, OLD.organization_id, OLD.project_id, OLD.reason, OLD.created_by, OLD.created_at)
    IS DISTINCT FROM (NEW.id, NEW.organization_id, NEW.project_id, NEW.reason, NEW.created_by,
      NEW.created_at)
    OR lower(OLD.valid) <> lower(NEW.valid) OR OLD.cancelled_at IS NOT NULL)
  EXECUTE FUNCTION ledger_refuse('only the end of a protected window moves');
ALTER TABLE quotas_protectedwindow
  ENABLE ALWAYS TRIGGER quotas_protectedwindow_refuses_delete,
  ENABLE ALWAYS TRIGGER quotas_protectedwindow_refuses_truncate,
  ENABLE ALWAYS TRIGGER quotas_protectedwindow_refuses_update;

CREATE TRIGGER quotas_quotagrant_names_holder BEFORE INSERT ON quotas_quotagrant
  FOR EACH ROW EXECUTE FUNCTION quota_grant_name_holder();
CREATE TRIGGER quotas_quotagrant_refuses_update BEFORE UPDATE ON quotas_quotagrant
  FOR EACH ROW WHEN (
    OLD.units <> NEW.units OR OLD.reason <> NEW.reason OR OLD.reference <> NEW.reference
    OR OLD.note <> NEW.note OR OLD.created_at <> NEW.created_at
    OR OLD.organization_id <> NEW.organization_id
    OR OLD.project_id IS DISTINCT FROM NEW.project_id
    OR (NEW.limit_id IS NOT NULL AND NEW.limit_id IS DISTINCT FROM OLD.limit_id)
    OR (NOT isempty(NEW.valid) AND lower(NEW.valid) IS DISTINCT FROM lower(OLD.valid)))
  EXECUTE FUNCTION ledger_refuse('a grant is ended, and kept');
CREATE TRIGGER quotas_quotagrant_refuses_delete BEFORE DELETE ON quotas_quotagrant
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a grant is ended, and kept');
CREATE TRIGGER quotas_quotagrant_refuses_truncate BEFORE TRUNCATE ON quotas_quotagrant
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('a grant is ended, and kept');
ALTER TABLE quotas_quotagrant
  ENABLE ALWAYS TRIGGER quotas_quotagrant_names_holder,
  ENABLE ALWAYS TRIGGER quotas_quotagrant_refuses_update,
  ENABLE ALWAYS TRIGGER quotas_quotagrant_refuses_delete,
  ENABLE ALWAYS TRIGGER quotas_quotagrant_refuses_truncate;

CREATE TRIGGER quotas_quotaloan_refuses_update BEFORE UPDATE ON quotas_quotaloan
  FOR EACH ROW WHEN (
    (OLD.state NOT IN ('proposed', 'active') AND OLD.* IS DISTINCT FROM NEW.*)
    OR (OLD.state = 'active' AND NEW.state = 'proposed'))
  EXECUTE FUNCTION ledger_refuse('what was decided stays');
CREATE TRIGGER quotas_quotaloan_refuses_delete BEFORE DELETE ON quotas_quotaloan
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('decisions are kept');
CREATE TRIGGER quotas_quotaloan_refuses_truncate BEFORE TRUNCATE ON quotas_quotaloan
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('decisions are kept');
ALTER TABLE quotas_quotaloan
  ENABLE ALWAYS TRIGGER quotas_quotaloan_refuses_update,
  ENABLE ALWAYS TRIGGER quotas_quotaloan_refuses_delete,
  ENABLE ALWAYS TRIGGER quotas_quotaloan_refuses_truncate;

-- The tables of moves are in quotas/domain: no move leaves these states, and none leads back.
CREATE TRIGGER quotas_quotarequest_refuses_update BEFORE UPDATE ON quotas_quotarequest
  FOR EACH ROW WHEN (OLD.state <> 'submitted' AND OLD.* IS DISTINCT FROM NEW.*)
  EXECUTE FUNCTION ledger_refuse('what was decided stays');
CREATE TRIGGER quotas_quotarequest_refuses_delete BEFORE DELETE ON quotas_quotarequest
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('decisions are kept');
CREATE TRIGGER quotas_quotarequest_refuses_truncate BEFORE TRUNCATE ON quotas_quotarequest
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('decisions are kept');
ALTER TABLE quotas_quotarequest
  ENABLE ALWAYS TRIGGER quotas_quotarequest_refuses_update,
  ENABLE ALWAYS TRIGGER quotas_quotarequest_refuses_delete,
  ENABLE ALWAYS TRIGGER quotas_quotarequest_refuses_truncate;

CREATE TRIGGER quotas_quotasuspension_refuses_update BEFORE UPDATE ON quotas_quotasuspension
  FOR EACH ROW WHEN (
    OLD.end_at IS NOT NULL OR OLD.reason <> NEW.reason OR OLD.source <> NEW.source
    OR OLD.begin_at <> NEW.begin_at OR OLD.organization_id <> NEW.organization_id
    OR OLD.project_id IS DISTINCT FROM NEW.project_id)
  EXECUTE FUNCTION ledger_refuse('a suspension is ended, and kept');
CREATE TRIGGER quotas_quotasuspension_refuses_delete BEFORE DELETE ON quotas_quotasuspension
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a suspension is ended, and kept');
CREATE TRIGGER quotas_quotasuspension_refuses_truncate BEFORE TRUNCATE ON quotas_quotasuspension
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('a suspension is ended, and kept');
ALTER TABLE quotas_quotasuspension
  ENABLE ALWAYS TRIGGER quotas_quotasuspension_refuses_update,
  ENABLE ALWAYS TRIGGER quotas_quotasuspension_refuses_delete,
  ENABLE ALWAYS TRIGGER quotas_quotasuspension_refuses_truncate;

CREATE TRIGGER quotas_requeststep_refuses_update BEFORE UPDATE ON quotas_requeststep
  FOR EACH ROW WHEN (OLD.outcome NOT IN ('waiting', 'open') AND OLD.* IS DISTINCT FROM NEW.*)
  EXECUTE FUNCTION ledger_refuse('what was decided stays');
CREATE TRIGGER quotas_requeststep_refuses_delete BEFORE DELETE ON quotas_requeststep
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('decisions are kept');
CREATE TRIGGER quotas_requeststep_refuses_truncate BEFORE TRUNCATE ON quotas_requeststep
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('decisions are kept');
ALTER TABLE quotas_requeststep
  ENABLE ALWAYS TRIGGER quotas_requeststep_refuses_update,
  ENABLE ALWAYS TRIGGER quotas_requeststep_refuses_delete,
  ENABLE ALWAYS TRIGGER quotas_requeststep_refuses_truncate;

REVOKE DELETE, TRUNCATE ON quotas_preemptionplan, quotas_preemptionaction, quotas_protectedwindow
  FROM gpu_ledger_runtime;
REVOKE DELETE, TRUNCATE ON quotas_quotagrant FROM gpu_ledger_runtime;
REVOKE DELETE, TRUNCATE ON quotas_quotasuspension FROM gpu_ledger_runtime;
REVOKE DELETE, TRUNCATE ON quotas_quotarequest FROM gpu_ledger_runtime;
REVOKE DELETE, TRUNCATE ON quotas_requeststep FROM gpu_ledger_runtime;
REVOKE DELETE, TRUNCATE ON quotas_quotaloan FROM gpu_ledger_runtime;
-- reverse
DROP TRIGGER quotas_preemptionaction_refuses_update ON quotas_preemptionaction;
DROP TRIGGER quotas_preemptionaction_refuses_delete ON quotas_preemptionaction;
DROP TRIGGER quotas_preemptionaction_refuses_truncate ON quotas_preemptionaction;
DROP TRIGGER quotas_preemptionplan_refuses_update ON quotas_preemptionplan;
DROP TRIGGER quotas_preemptionplan_refuses_delete ON quotas_preemptionplan;
DROP TRIGGER quotas_preemptionplan_refuses_truncate ON quotas_preemptionplan;
DROP TRIGGER quotas_protectedwindow_refuses_delete ON quotas_protectedwindow;
DROP TRIGGER quotas_protectedwindow_refuses_truncate ON quotas_protectedwindow;
DROP TRIGGER quotas_protectedwindow_refuses_update ON quotas_protectedwindow;
DROP TRIGGER quotas_quotagrant_names_holder ON quotas_quotagrant;
DROP TRIGGER quotas_quotagrant_refuses_update ON quotas_quotagrant;
DROP TRIGGER quotas_quotagrant_refuses_delete ON quotas_quotagrant;
DROP TRIGGER quotas_quotagrant_refuses_truncate ON quotas_quotagrant;
DROP TRIGGER quotas_quotaloan_refuses_update ON quotas_quotaloan;
DROP TRIGGER quotas_quotaloan_refuses_delete ON quotas_quotaloan;
DROP TRIGGER quotas_quotaloan_refuses_truncate ON quotas_quotaloan;
DROP TRIGGER quotas_quotarequest_refuses_update ON quotas_quotarequest;
DROP TRIGGER quotas_quotarequest_refuses_delete ON quotas_quotarequest;
DROP TRIGGER quotas_quotarequest_refuses_truncate ON quotas_quotarequest;
DROP TRIGGER quotas_quotasuspension_refuses_update ON quotas_quotasuspension;
DROP TRIGGER quotas_quotasuspension_refuses_delete ON quotas_quotasuspension;
DROP TRIGGER quotas_quotasuspension_refuses_truncate ON quotas_quotasuspension;
DROP TRIGGER quotas_requeststep_refuses_update ON quotas_requeststep;
DROP TRIGGER quotas_requeststep_refuses_delete ON quotas_requeststep;
DROP TRIGGER quotas_requeststep_refuses_truncate ON quotas_requeststep;
GRANT DELETE ON quotas_preemptionplan, quotas_preemptionaction, quotas_protectedwindow TO
  gpu_ledger_runtime;
GRANT DELETE ON quotas_quotagrant TO gpu_ledger_runtime;
GRANT DELETE ON quotas_quotasuspension TO gpu_ledger_runtime;
GRANT DELETE ON quotas_quotarequest TO gpu_ledger_runtime;
GRANT DELETE ON quotas_requeststep TO gpu_ledger_runtime;
GRANT DELETE ON quotas_quotaloan TO gpu_ledger_runtime;
