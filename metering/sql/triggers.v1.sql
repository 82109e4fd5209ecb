-- Triggers that keep sealed hours, evidence and decisions, and what the runtime role may not do.

CREATE TRIGGER metering_capacityrecord_checks_insert AFTER INSERT ON metering_capacityrecord
  REFERENCING NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION metering_keep_sealed_capacity();
CREATE TRIGGER metering_capacityrecord_checks_update AFTER UPDATE ON metering_capacityrecord
  REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION metering_keep_sealed_capacity();
CREATE TRIGGER metering_capacityrecord_keeps_sealed BEFORE DELETE ON metering_capacityrecord
  FOR EACH ROW EXECUTE FUNCTION metering_refuse_sealed_delete();
CREATE TRIGGER metering_capacityrecord_refuses_truncate BEFORE TRUNCATE ON metering_capacityrecord
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('capacity is never truncated');
ALTER TABLE metering_capacityrecord
  ENABLE ALWAYS TRIGGER metering_capacityrecord_checks_insert,
  ENABLE ALWAYS TRIGGER metering_capacityrecord_checks_update,
  ENABLE ALWAYS TRIGGER metering_capacityrecord_keeps_sealed,
  ENABLE ALWAYS TRIGGER metering_capacityrecord_refuses_truncate;

CREATE TRIGGER metering_catalogueversion_refuses_update BEFORE UPDATE ON metering_catalogueversion
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a catalogue version is never changed');
CREATE TRIGGER metering_catalogueversion_refuses_delete BEFORE DELETE ON metering_catalogueversion
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a catalogue version is never changed');
CREATE TRIGGER metering_catalogueversion_refuses_truncate BEFORE TRUNCATE ON
  metering_catalogueversion
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('a catalogue version is never changed');
ALTER TABLE metering_catalogueversion
  ENABLE ALWAYS TRIGGER metering_catalogueversion_refuses_update,
  ENABLE ALWAYS TRIGGER metering_catalogueversion_refuses_delete,
  ENABLE ALWAYS TRIGGER metering_catalogueversion_refuses_truncate;

CREATE TRIGGER metering_claimconsumer_refuses_delete BEFORE DELETE ON metering_claimconsumer
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('what a source reported is kept');
CREATE TRIGGER metering_claimconsumer_refuses_truncate BEFORE TRUNCATE ON metering_claimconsumer
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('what a source reported is kept');
ALTER TABLE metering_claimconsumer
  ENABLE ALWAYS TRIGGER metering_claimconsumer_refuses_delete,
  ENABLE ALWAYS TRIGGER metering_claimconsumer_refuses_truncate;

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
CREATE TRIGGER metering_creditproposal_refuses_delete BEFORE DELETE ON metering_creditproposal
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a credit is decided, never deleted');
CREATE TRIGGER metering_creditproposal_refuses_truncate BEFORE TRUNCATE ON metering_creditproposal
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('a credit is decided, never deleted');
ALTER TABLE metering_creditproposal
  ENABLE ALWAYS TRIGGER metering_creditproposal_refuses_update,
  ENABLE ALWAYS TRIGGER metering_creditproposal_refuses_delete,
  ENABLE ALWAYS TRIGGER metering_creditproposal_refuses_truncate;

CREATE TRIGGER metering_deviceevent_refuses_update BEFORE UPDATE ON metering_deviceevent
  FOR EACH ROW WHEN (
    ROW(OLD.cluster_id, OLD.window_id, OLD.node, OLD.uuid, OLD.instance_id, OLD.instance_profile,
      OLD.kind, OLD.code, OLD.severity, OLD.begin_at, OLD.metric, OLD.value_before, OLD.value_after,
      OLD.evidence) IS DISTINCT FROM ROW(NEW.cluster_id, NEW.window_id, NEW.node, NEW.uuid,
      NEW.instance_id, NEW.instance_profile, NEW.kind, NEW.code, NEW.severity, NEW.begin_at,
      NEW.metric, NEW.value_before, NEW.value_after, NEW.evidence))
  EXECUTE FUNCTION ledger_refuse('what was observed of a device stays; only its end is set later');
CREATE TRIGGER metering_deviceevent_refuses_delete BEFORE DELETE ON metering_deviceevent
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('what was observed of a device stays');
CREATE TRIGGER metering_deviceevent_refuses_truncate BEFORE TRUNCATE ON metering_deviceevent
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('what was observed of a device stays');
ALTER TABLE metering_deviceevent
  ENABLE ALWAYS TRIGGER metering_deviceevent_refuses_update,
  ENABLE ALWAYS TRIGGER metering_deviceevent_refuses_delete,
  ENABLE ALWAYS TRIGGER metering_deviceevent_refuses_truncate;

CREATE TRIGGER metering_deviceusage_checks_insert AFTER INSERT ON metering_deviceusage REFERENCING
  NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION metering_check_device_usage();
CREATE TRIGGER metering_deviceusage_keeps_sealed AFTER DELETE ON metering_deviceusage REFERENCING
  OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION metering_keep_sealed_device_usage();
CREATE TRIGGER metering_deviceusage_refuses_update BEFORE UPDATE ON metering_deviceusage
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('device usage is replaced, never edited');
CREATE TRIGGER metering_deviceusage_refuses_truncate BEFORE TRUNCATE ON metering_deviceusage
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('device usage is never truncated');
ALTER TABLE metering_deviceusage
  ENABLE ALWAYS TRIGGER metering_deviceusage_checks_insert,
  ENABLE ALWAYS TRIGGER metering_deviceusage_keeps_sealed,
  ENABLE ALWAYS TRIGGER metering_deviceusage_refuses_update,
  ENABLE ALWAYS TRIGGER metering_deviceusage_refuses_truncate;

CREATE TRIGGER metering_devicewindow_refuses_update BEFORE UPDATE ON metering_devicewindow
  FOR EACH ROW WHEN (OLD.state IN ('sealed', 'unavailable'))
  EXECUTE FUNCTION ledger_refuse('the device figures are sealed');
CREATE TRIGGER metering_devicewindow_refuses_delete BEFORE DELETE ON metering_devicewindow
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('windows are kept for ever');
CREATE TRIGGER metering_devicewindow_refuses_truncate BEFORE TRUNCATE ON metering_devicewindow
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('windows are kept for ever');
ALTER TABLE metering_devicewindow
  ENABLE ALWAYS TRIGGER metering_devicewindow_refuses_update,
  ENABLE ALWAYS TRIGGER metering_devicewindow_refuses_delete,
  ENABLE ALWAYS TRIGGER metering_devicewindow_refuses_truncate;

-- A resolved exception is opened again without its decision, and after a person's decision only
-- for other facts or where the window waits.
CREATE TRIGGER metering_meteringexception_refuses_update BEFORE UPDATE ON
  metering_meteringexception
  FOR EACH ROW WHEN (
    (OLD.id, OLD.cluster_id, OLD.window_id, OLD.window_start, OLD.kind, OLD.subject,
      OLD.created_at)
    IS DISTINCT FROM (NEW.id, NEW.cluster_id, NEW.window_id, NEW.window_start, NEW.kind,
      NEW.subject, NEW.created_at)
    OR (OLD.state = 'resolved' AND NEW.state = 'resolved')
    OR (OLD.state = 'resolved' AND NEW.state <> 'resolved' AND (NEW.state <> 'open' OR
      NEW.resolution <> '' OR NEW.resolved_at IS NOT NULL OR NEW.resolved_by_id IS NOT NULL OR
      (OLD.resolved_by_id IS NOT NULL AND OLD.kind NOT IN ('low_coverage', 'overdue', 'quarantined',
      'source_unavailable') AND (OLD.details - 'query_digest', OLD.held_unit_seconds) IS NOT
      DISTINCT FROM (NEW.details - 'query_digest', NEW.held_unit_seconds)))))
  EXECUTE FUNCTION ledger_refuse('what was decided stays; open it again instead');
CREATE TRIGGER metering_meteringexception_refuses_delete BEFORE DELETE ON
  metering_meteringexception
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('an exception is resolved, and kept');
CREATE TRIGGER metering_meteringexception_refuses_truncate BEFORE TRUNCATE ON
  metering_meteringexception
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('an exception is resolved, and kept');
ALTER TABLE metering_meteringexception
  ENABLE ALWAYS TRIGGER metering_meteringexception_refuses_update,
  ENABLE ALWAYS TRIGGER metering_meteringexception_refuses_delete,
  ENABLE ALWAYS TRIGGER metering_meteringexception_refuses_truncate;

CREATE TRIGGER metering_meteringwindow_refuses_update BEFORE UPDATE ON metering_meteringwindow
  FOR EACH ROW WHEN (OLD.state = 'sealed')
  EXECUTE FUNCTION ledger_refuse('the window is sealed');
CREATE TRIGGER metering_meteringwindow_refuses_delete BEFORE DELETE ON metering_meteringwindow
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('windows are kept for ever');
CREATE TRIGGER metering_meteringwindow_refuses_truncate BEFORE TRUNCATE ON metering_meteringwindow
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('windows are kept for ever');
ALTER TABLE metering_meteringwindow
  ENABLE ALWAYS TRIGGER metering_meteringwindow_refuses_update,
  ENABLE ALWAYS TRIGGER metering_meteringwindow_refuses_delete,
  ENABLE ALWAYS TRIGGER metering_meteringwindow_refuses_truncate;

CREATE TRIGGER metering_noderecord_refuses_delete BEFORE DELETE ON metering_noderecord
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('what a source reported is kept');
CREATE TRIGGER metering_noderecord_refuses_truncate BEFORE TRUNCATE ON metering_noderecord
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('what a source reported is kept');
ALTER TABLE metering_noderecord
  ENABLE ALWAYS TRIGGER metering_noderecord_refuses_delete,
  ENABLE ALWAYS TRIGGER metering_noderecord_refuses_truncate;

CREATE TRIGGER metering_offereddevice_refuses_delete BEFORE DELETE ON metering_offereddevice
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('what a source reported is kept');
CREATE TRIGGER metering_offereddevice_refuses_truncate BEFORE TRUNCATE ON metering_offereddevice
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('what a source reported is kept');
ALTER TABLE metering_offereddevice
  ENABLE ALWAYS TRIGGER metering_offereddevice_refuses_delete,
  ENABLE ALWAYS TRIGGER metering_offereddevice_refuses_truncate;

-- A size is settled once: from '' to what the first catalogue that knows the device says. Labels,
-- project, priority and controller may be unknown at the bind; each is filled once, labels never
-- after the size.
CREATE TRIGGER metering_podallocation_refuses_update BEFORE UPDATE ON metering_podallocation
  FOR EACH ROW WHEN (
    ((OLD.cluster_id, OLD.pod_uid, OLD.resource, OLD.namespace, OLD.pod_name, OLD.node, OLD.owner,
      OLD.priority_class, OLD.source, OLD.units, OLD.begin_at) IS DISTINCT FROM (NEW.cluster_id,
      NEW.pod_uid, NEW.resource, NEW.namespace, NEW.pod_name, NEW.node, NEW.owner,
      NEW.priority_class, NEW.source, NEW.units, NEW.begin_at))
    OR (OLD.size <> '' AND (OLD.size, OLD.price_group, OLD.sharing_mode, OLD.share_numerator,
      OLD.share_denominator, OLD.product, OLD.catalogue_version) IS DISTINCT FROM (NEW.size,
      NEW.price_group, NEW.sharing_mode, NEW.share_numerator, NEW.share_denominator, NEW.product,
      NEW.catalogue_version))
    OR ((OLD.node_labels <> '{}' OR OLD.size <> '') AND OLD.node_labels IS DISTINCT FROM
      NEW.node_labels)
    OR (OLD.project_id IS NOT NULL AND OLD.project_id IS DISTINCT FROM NEW.project_id)
    OR (OLD.priority IS NOT NULL AND OLD.priority IS DISTINCT FROM NEW.priority)
    OR (OLD.controller <> '' AND OLD.controller IS DISTINCT FROM NEW.controller))
  EXECUTE FUNCTION ledger_refuse('what a pod held is settled at bind');
CREATE TRIGGER metering_podallocation_refuses_delete BEFORE DELETE ON metering_podallocation
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('allocations are kept for ever');
CREATE TRIGGER metering_podallocation_refuses_truncate BEFORE TRUNCATE ON metering_podallocation
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('allocations are never truncated');
ALTER TABLE metering_podallocation
  ENABLE ALWAYS TRIGGER metering_podallocation_refuses_update,
  ENABLE ALWAYS TRIGGER metering_podallocation_refuses_delete,
  ENABLE ALWAYS TRIGGER metering_podallocation_refuses_truncate;

CREATE TRIGGER metering_queuedpod_refuses_delete BEFORE DELETE ON metering_queuedpod
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('what a source reported is kept');
CREATE TRIGGER metering_queuedpod_refuses_truncate BEFORE TRUNCATE ON metering_queuedpod
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('what a source reported is kept');
ALTER TABLE metering_queuedpod
  ENABLE ALWAYS TRIGGER metering_queuedpod_refuses_delete,
  ENABLE ALWAYS TRIGGER metering_queuedpod_refuses_truncate;

CREATE TRIGGER metering_reconciliationdecision_refuses_update BEFORE UPDATE ON
  metering_reconciliationdecision
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('decisions are changed by a later one');
CREATE TRIGGER metering_reconciliationdecision_refuses_delete BEFORE DELETE ON
  metering_reconciliationdecision
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('decisions are changed by a later one');
CREATE TRIGGER metering_reconciliationdecision_refuses_truncate BEFORE TRUNCATE ON
  metering_reconciliationdecision
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('decisions are changed by a later one');
ALTER TABLE metering_reconciliationdecision
  ENABLE ALWAYS TRIGGER metering_reconciliationdecision_refuses_update,
  ENABLE ALWAYS TRIGGER metering_reconciliationdecision_refuses_delete,
  ENABLE ALWAYS TRIGGER metering_reconciliationdecision_refuses_truncate;

CREATE TRIGGER metering_usageactivity_checks_insert AFTER INSERT ON metering_usageactivity
  REFERENCING NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION metering_check_usage_activity();
CREATE TRIGGER metering_usageactivity_keeps_sealed AFTER DELETE ON metering_usageactivity
  REFERENCING OLD TABLE AS old_rows
  FOR EACH STATEMENT EXECUTE FUNCTION metering_keep_sealed_device_usage();
CREATE TRIGGER metering_usageactivity_refuses_update BEFORE UPDATE ON metering_usageactivity
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('device figures are replaced, never edited');
CREATE TRIGGER metering_usageactivity_refuses_truncate BEFORE TRUNCATE ON metering_usageactivity
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('device figures are never truncated');
ALTER TABLE metering_usageactivity
  ENABLE ALWAYS TRIGGER metering_usageactivity_checks_insert,
  ENABLE ALWAYS TRIGGER metering_usageactivity_keeps_sealed,
  ENABLE ALWAYS TRIGGER metering_usageactivity_refuses_update,
  ENABLE ALWAYS TRIGGER metering_usageactivity_refuses_truncate;

CREATE TRIGGER metering_usagecorrection_refuses_update BEFORE UPDATE ON metering_usagecorrection
  FOR EACH ROW WHEN (
    OLD.state <> 'proposed'
    OR (OLD.id, OLD.window_id, OLD.window_start, OLD.cluster_id, OLD.organization_id,
      OLD.project_id, OLD.cause, OLD.reason, OLD.recheck_id, OLD.evidence, OLD.lines,
      OLD.record_count, OLD.unit_seconds, OLD.digest, OLD.requested_by, OLD.requested_by_id,
        OLD.requested_at)
    IS DISTINCT FROM (NEW.id, NEW.window_id, NEW.window_start, NEW.cluster_id,
      NEW.organization_id, NEW.project_id, NEW.cause, NEW.reason, NEW.recheck_id, NEW.evidence,
      NEW.lines, NEW.record_count, NEW.unit_seconds, NEW.digest, NEW.requested_by,
        NEW.requested_by_id,
      NEW.requested_at))
  EXECUTE FUNCTION ledger_refuse('a correction is decided once');
CREATE TRIGGER metering_usagecorrection_refuses_delete BEFORE DELETE ON metering_usagecorrection
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a correction is corrected by another one');
CREATE TRIGGER metering_usagecorrection_refuses_truncate BEFORE TRUNCATE ON
  metering_usagecorrection
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('corrections are kept for ever');
CREATE CONSTRAINT TRIGGER metering_usagecorrection_is_written AFTER INSERT OR UPDATE ON
  metering_usagecorrection DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW WHEN (NEW.state = 'posted')
  EXECUTE FUNCTION metering_posted_is_written();
CREATE TRIGGER metering_usagecorrection_moves_insert AFTER INSERT ON metering_usagecorrection
  REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION metering_move_capacity();
CREATE TRIGGER metering_usagecorrection_moves_update AFTER UPDATE ON metering_usagecorrection
  REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION metering_move_capacity();
ALTER TABLE metering_usagecorrection
  ENABLE ALWAYS TRIGGER metering_usagecorrection_refuses_update,
  ENABLE ALWAYS TRIGGER metering_usagecorrection_refuses_delete,
  ENABLE ALWAYS TRIGGER metering_usagecorrection_refuses_truncate,
  ENABLE ALWAYS TRIGGER metering_usagecorrection_is_written,
  ENABLE ALWAYS TRIGGER metering_usagecorrection_moves_insert,
  ENABLE ALWAYS TRIGGER metering_usagecorrection_moves_update;

CREATE TRIGGER metering_usagerecord_checks_insert AFTER INSERT ON metering_usagerecord REFERENCING
  NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION metering_check_usage();
CREATE TRIGGER metering_usagerecord_keeps_sealed BEFORE DELETE ON metering_usagerecord
  FOR EACH ROW EXECUTE FUNCTION metering_keep_sealed_usage();
CREATE TRIGGER metering_usagerecord_refuses_update BEFORE UPDATE ON metering_usagerecord
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('usage is replaced, never edited');
CREATE TRIGGER metering_usagerecord_refuses_truncate BEFORE TRUNCATE ON metering_usagerecord
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('usage is never truncated');
ALTER TABLE metering_usagerecord
  ENABLE ALWAYS TRIGGER metering_usagerecord_checks_insert,
  ENABLE ALWAYS TRIGGER metering_usagerecord_keeps_sealed,
  ENABLE ALWAYS TRIGGER metering_usagerecord_refuses_update,
  ENABLE ALWAYS TRIGGER metering_usagerecord_refuses_truncate;

CREATE TRIGGER metering_watchspan_refuses_delete BEFORE DELETE ON metering_watchspan
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('what a source reported is kept');
CREATE TRIGGER metering_watchspan_refuses_truncate BEFORE TRUNCATE ON metering_watchspan
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('what a source reported is kept');
ALTER TABLE metering_watchspan
  ENABLE ALWAYS TRIGGER metering_watchspan_refuses_delete,
  ENABLE ALWAYS TRIGGER metering_watchspan_refuses_truncate;

CREATE TRIGGER metering_windowrecheck_refuses_update BEFORE UPDATE ON metering_windowrecheck
  FOR EACH ROW WHEN (OLD.state IN ('done', 'lapsed', 'failed'))
  EXECUTE FUNCTION ledger_refuse('a recheck ends once');
CREATE TRIGGER metering_windowrecheck_refuses_delete BEFORE DELETE ON metering_windowrecheck
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('rechecks are kept for ever');
CREATE TRIGGER metering_windowrecheck_refuses_truncate BEFORE TRUNCATE ON metering_windowrecheck
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('rechecks are kept for ever');
ALTER TABLE metering_windowrecheck
  ENABLE ALWAYS TRIGGER metering_windowrecheck_refuses_update,
  ENABLE ALWAYS TRIGGER metering_windowrecheck_refuses_delete,
  ENABLE ALWAYS TRIGGER metering_windowrecheck_refuses_truncate;

CREATE TRIGGER tenants_namespacebinding_keeps_metered BEFORE UPDATE OR DELETE ON
  tenants_namespacebinding FOR EACH ROW EXECUTE FUNCTION metering_keep_metered_binding();
ALTER TABLE tenants_namespacebinding ENABLE ALWAYS TRIGGER tenants_namespacebinding_keeps_metered;

CREATE TRIGGER tenants_project_refuses_update BEFORE UPDATE ON tenants_project
  FOR EACH ROW WHEN (OLD.organization_id IS DISTINCT FROM NEW.organization_id)
  EXECUTE FUNCTION ledger_refuse('a project stays with its organization');
CREATE TRIGGER tenants_project_refuses_delete BEFORE DELETE ON tenants_project
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('a project is closed, and kept');
ALTER TABLE tenants_project
  ENABLE ALWAYS TRIGGER tenants_project_refuses_update,
  ENABLE ALWAYS TRIGGER tenants_project_refuses_delete;

REVOKE UPDATE, TRUNCATE ON metering_usagerecord FROM gpu_ledger_runtime;
REVOKE UPDATE, DELETE, TRUNCATE ON metering_catalogueversion FROM gpu_ledger_runtime;
REVOKE UPDATE, DELETE, TRUNCATE ON metering_reconciliationdecision FROM gpu_ledger_runtime;
REVOKE DELETE, TRUNCATE ON metering_usagecorrection, metering_windowrecheck FROM
  gpu_ledger_runtime;
REVOKE UPDATE, TRUNCATE ON metering_deviceusage FROM gpu_ledger_runtime;
REVOKE UPDATE, TRUNCATE ON metering_usageactivity FROM gpu_ledger_runtime;
REVOKE DELETE ON metering_meteringexception, tenants_namespacebinding, tenants_project FROM
  gpu_ledger_runtime;
-- reverse
DROP TRIGGER metering_capacityrecord_checks_insert ON metering_capacityrecord;
DROP TRIGGER metering_capacityrecord_checks_update ON metering_capacityrecord;
DROP TRIGGER metering_capacityrecord_keeps_sealed ON metering_capacityrecord;
DROP TRIGGER metering_capacityrecord_refuses_truncate ON metering_capacityrecord;
DROP TRIGGER metering_catalogueversion_refuses_update ON metering_catalogueversion;
DROP TRIGGER metering_catalogueversion_refuses_delete ON metering_catalogueversion;
DROP TRIGGER metering_catalogueversion_refuses_truncate ON metering_catalogueversion;
DROP TRIGGER metering_claimconsumer_refuses_delete ON metering_claimconsumer;
DROP TRIGGER metering_claimconsumer_refuses_truncate ON metering_claimconsumer;
DROP TRIGGER metering_creditproposal_refuses_update ON metering_creditproposal;
DROP TRIGGER metering_creditproposal_refuses_delete ON metering_creditproposal;
DROP TRIGGER metering_creditproposal_refuses_truncate ON metering_creditproposal;
DROP TRIGGER metering_deviceevent_refuses_update ON metering_deviceevent;
DROP TRIGGER metering_deviceevent_refuses_delete ON metering_deviceevent;
DROP TRIGGER metering_deviceevent_refuses_truncate ON metering_deviceevent;
DROP TRIGGER metering_deviceusage_checks_insert ON metering_deviceusage;
DROP TRIGGER metering_deviceusage_keeps_sealed ON metering_deviceusage;
DROP TRIGGER metering_deviceusage_refuses_update ON metering_deviceusage;
DROP TRIGGER metering_deviceusage_refuses_truncate ON metering_deviceusage;
DROP TRIGGER metering_devicewindow_refuses_update ON metering_devicewindow;
DROP TRIGGER metering_devicewindow_refuses_delete ON metering_devicewindow;
DROP TRIGGER metering_devicewindow_refuses_truncate ON metering_devicewindow;
DROP TRIGGER metering_meteringexception_refuses_update ON metering_meteringexception;
DROP TRIGGER metering_meteringexception_refuses_delete ON metering_meteringexception;
DROP TRIGGER metering_meteringexception_refuses_truncate ON metering_meteringexception;
DROP TRIGGER metering_meteringwindow_refuses_update ON metering_meteringwindow;
DROP TRIGGER metering_meteringwindow_refuses_delete ON metering_meteringwindow;
DROP TRIGGER metering_meteringwindow_refuses_truncate ON metering_meteringwindow;
DROP TRIGGER metering_noderecord_refuses_delete ON metering_noderecord;
DROP TRIGGER metering_noderecord_refuses_truncate ON metering_noderecord;
DROP TRIGGER metering_offereddevice_refuses_delete ON metering_offereddevice;
DROP TRIGGER metering_offereddevice_refuses_truncate ON metering_offereddevice;
DROP TRIGGER metering_podallocation_refuses_update ON metering_podallocation;
DROP TRIGGER metering_podallocation_refuses_delete ON metering_podallocation;
DROP TRIGGER metering_podallocation_refuses_truncate ON metering_podallocation;
DROP TRIGGER metering_queuedpod_refuses_delete ON metering_queuedpod;
DROP TRIGGER metering_queuedpod_refuses_truncate ON metering_queuedpod;
DROP TRIGGER metering_reconciliationdecision_refuses_update ON metering_reconciliationdecision;
DROP TRIGGER metering_reconciliationdecision_refuses_delete ON metering_reconciliationdecision;
DROP TRIGGER metering_reconciliationdecision_refuses_truncate ON metering_reconciliationdecision;
DROP TRIGGER metering_usageactivity_checks_insert ON metering_usageactivity;
DROP TRIGGER metering_usageactivity_keeps_sealed ON metering_usageactivity;
DROP TRIGGER metering_usageactivity_refuses_update ON metering_usageactivity;
DROP TRIGGER metering_usageactivity_refuses_truncate ON metering_usageactivity;
DROP TRIGGER metering_usagecorrection_refuses_update ON metering_usagecorrection;
DROP TRIGGER metering_usagecorrection_refuses_delete ON metering_usagecorrection;
DROP TRIGGER metering_usagecorrection_refuses_truncate ON metering_usagecorrection;
DROP TRIGGER metering_usagecorrection_is_written ON metering_usagecorrection;
DROP TRIGGER metering_usagecorrection_moves_insert ON metering_usagecorrection;
DROP TRIGGER metering_usagecorrection_moves_update ON metering_usagecorrection;
DROP TRIGGER metering_usagerecord_checks_insert ON metering_usagerecord;
DROP TRIGGER metering_usagerecord_keeps_sealed ON metering_usagerecord;
DROP TRIGGER metering_usagerecord_refuses_update ON metering_usagerecord;
DROP TRIGGER metering_usagerecord_refuses_truncate ON metering_usagerecord;
DROP TRIGGER metering_watchspan_refuses_delete ON metering_watchspan;
DROP TRIGGER metering_watchspan_refuses_truncate ON metering_watchspan;
DROP TRIGGER metering_windowrecheck_refuses_update ON metering_windowrecheck;
DROP TRIGGER metering_windowrecheck_refuses_delete ON metering_windowrecheck;
DROP TRIGGER metering_windowrecheck_refuses_truncate ON metering_windowrecheck;
DROP TRIGGER tenants_namespacebinding_keeps_metered ON tenants_namespacebinding;
DROP TRIGGER tenants_project_refuses_update ON tenants_project;
DROP TRIGGER tenants_project_refuses_delete ON tenants_project;
GRANT UPDATE ON metering_usagerecord TO gpu_ledger_runtime;
GRANT UPDATE, DELETE ON metering_catalogueversion TO gpu_ledger_runtime;
GRANT UPDATE, DELETE ON metering_reconciliationdecision TO gpu_ledger_runtime;
GRANT DELETE ON metering_usagecorrection, metering_windowrecheck TO gpu_ledger_runtime;
GRANT UPDATE ON metering_deviceusage TO gpu_ledger_runtime;
GRANT UPDATE ON metering_usageactivity TO gpu_ledger_runtime;
GRANT DELETE ON metering_meteringexception, tenants_namespacebinding, tenants_project TO
  gpu_ledger_runtime;
