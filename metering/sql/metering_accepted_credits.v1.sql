-- What billing may read: accepted credits, less what corrections took back of the usage since. Those
-- that were accepted before billing put them on documents were credited by hand.
UPDATE metering_creditproposal SET is_credited_by_hand = true WHERE state = 'accepted';
DROP TRIGGER metering_creditproposal_refuses_update ON metering_creditproposal;
CREATE TRIGGER metering_creditproposal_refuses_update BEFORE UPDATE ON metering_creditproposal
  FOR EACH ROW WHEN (
    OLD.state NOT IN ('proposed', 'withdrawn')
    AND ROW(OLD.event_id, OLD.window_id, OLD.window_start, OLD.usage_record, OLD.cluster_id,
      OLD.organization_id, OLD.project_id, OLD.owner, OLD.namespace, OLD.pod_name, OLD.pod_uid,
      OLD.resource, OLD.size, OLD.price_group, OLD.unit_seconds, OLD.is_certain, OLD.state,
      OLD.reason, OLD.created_at, OLD.decided_at, OLD.decided_by_id, OLD.is_credited_by_hand)
      IS DISTINCT FROM
      ROW(NEW.event_id, NEW.window_id, NEW.window_start, NEW.usage_record, NEW.cluster_id,
      NEW.organization_id, NEW.project_id, NEW.owner, NEW.namespace, NEW.pod_name, NEW.pod_uid,
      NEW.resource, NEW.size, NEW.price_group, NEW.unit_seconds, NEW.is_certain, NEW.state,
      NEW.reason, NEW.created_at, NEW.decided_at, NEW.decided_by_id, NEW.is_credited_by_hand))
  EXECUTE FUNCTION ledger_refuse('a credit is decided once');
ALTER TABLE metering_creditproposal ENABLE ALWAYS TRIGGER metering_creditproposal_refuses_update;
CREATE VIEW metering_accepted_credit AS
SELECT id, window_id, window_start, cluster_id, organization_id, project_id, owner, size,
       price_group, unit_seconds - retracted_unit_seconds AS unit_seconds
  FROM metering_creditproposal
 WHERE state = 'accepted' AND NOT is_credited_by_hand;
GRANT SELECT ON metering_accepted_credit TO gpu_ledger_runtime;
-- reverse
DROP VIEW metering_accepted_credit;
DROP TRIGGER metering_creditproposal_refuses_update ON metering_creditproposal;
CREATE TRIGGER metering_creditproposal_refuses_update BEFORE UPDATE ON metering_creditproposal
  FOR EACH ROW WHEN (
    OLD.state NOT IN ('proposed', 'withdrawn')
    AND ROW(OLD.event_id, OLD.window_id, OLD.window_start, OLD.usage_record, OLD.cluster_id,
      OLD.organization_id, OLD.project_id, OLD.owner, OLD.namespace, OLD.pod_name, OLD.pod_uid,
      OLD.resource, OLD.size, OLD.price_group, OLD.unit_seconds, OLD.is_certain, OLD.state,
      OLD.reason, OLD.created_at, OLD.decided_at, OLD.decided_by_id) IS DISTINCT FROM
      ROW(NEW.event_id, NEW.window_id, NEW.window_start, NEW.usage_record, NEW.cluster_id,
      NEW.organization_id, NEW.project_id, NEW.owner, NEW.namespace, NEW.pod_name, NEW.pod_uid,
      NEW.resource, NEW.size, NEW.price_group, NEW.unit_seconds, NEW.is_certain, NEW.state,
      NEW.reason, NEW.created_at, NEW.decided_at, NEW.decided_by_id))
  EXECUTE FUNCTION ledger_refuse('a credit is decided once');
ALTER TABLE metering_creditproposal ENABLE ALWAYS TRIGGER metering_creditproposal_refuses_update;
