-- Labels of nodes are kept once a set: a cluster has a handful of kinds of nodes, and each pod on
-- one of them would repeat a kilobyte or two. A set is never changed and never removed, so that the
-- allocations that name it need no foreign key.
CREATE FUNCTION metering_label_set(given jsonb) RETURNS integer LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  wanted bytea := sha256(convert_to(given::text, 'UTF8'));
  found_id integer;
BEGIN
  IF given IS NULL OR given = '{}' THEN
    RETURN NULL;
  END IF;
  SELECT id INTO found_id FROM metering_nodelabelset WHERE digest = wanted;
  IF found_id IS NOT NULL THEN
    RETURN found_id;
  END IF;
  -- One transaction at a time adds sets: two that add the same ones in another order would
  -- otherwise wait for each other.
  LOCK TABLE metering_nodelabelset IN SHARE ROW EXCLUSIVE MODE;
  SELECT id INTO found_id FROM metering_nodelabelset WHERE digest = wanted;
  IF found_id IS NULL THEN
    INSERT INTO metering_nodelabelset (digest, labels) VALUES (wanted, given)
      RETURNING id INTO found_id;
  END IF;
  RETURN found_id;
END $$;

CREATE TRIGGER metering_nodelabelset_refuses_update BEFORE UPDATE ON metering_nodelabelset
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('allocations name these labels');
CREATE TRIGGER metering_nodelabelset_refuses_delete BEFORE DELETE ON metering_nodelabelset
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('allocations name these labels');
CREATE TRIGGER metering_nodelabelset_refuses_truncate BEFORE TRUNCATE ON metering_nodelabelset
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('allocations name these labels');
ALTER TABLE metering_nodelabelset
  ENABLE ALWAYS TRIGGER metering_nodelabelset_refuses_update,
  ENABLE ALWAYS TRIGGER metering_nodelabelset_refuses_delete,
  ENABLE ALWAYS TRIGGER metering_nodelabelset_refuses_truncate;

UPDATE metering_podallocation SET label_set_id = metering_label_set(node_labels)
 WHERE node_labels <> '{}';

DROP TRIGGER metering_podallocation_refuses_update ON metering_podallocation;
-- As before, with the set in place of the labels.
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
    OR ((OLD.label_set_id IS NOT NULL OR OLD.size <> '')
        AND OLD.label_set_id IS DISTINCT FROM NEW.label_set_id)
    OR (OLD.project_id IS NOT NULL AND OLD.project_id IS DISTINCT FROM NEW.project_id)
    OR (OLD.priority IS NOT NULL AND OLD.priority IS DISTINCT FROM NEW.priority)
    OR (OLD.controller <> '' AND OLD.controller IS DISTINCT FROM NEW.controller))
  EXECUTE FUNCTION ledger_refuse('what a pod held is settled at bind');
ALTER TABLE metering_podallocation ENABLE ALWAYS TRIGGER metering_podallocation_refuses_update;
-- reverse
DROP TRIGGER metering_podallocation_refuses_update ON metering_podallocation;
UPDATE metering_podallocation a SET node_labels = s.labels
  FROM metering_nodelabelset s WHERE s.id = a.label_set_id;
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
ALTER TABLE metering_podallocation ENABLE ALWAYS TRIGGER metering_podallocation_refuses_update;
DROP TRIGGER metering_nodelabelset_refuses_truncate ON metering_nodelabelset;
DROP TRIGGER metering_nodelabelset_refuses_delete ON metering_nodelabelset;
DROP TRIGGER metering_nodelabelset_refuses_update ON metering_nodelabelset;
DROP FUNCTION metering_label_set(jsonb);
