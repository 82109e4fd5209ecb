-- What usage records of a pod and resource repeat hour after hour, once. `id` is of the pod and
-- resource; `version` counts what was known of it: another owner, project or price group is
-- another version.
CREATE SEQUENCE metering_usagefact_id_seq;
CREATE TABLE metering_usagefact (
  id bigint NOT NULL,
  cluster_id uuid NOT NULL,
  organization_id uuid NOT NULL,
  project_id uuid NOT NULL,
  share_numerator integer NOT NULL CHECK (share_numerator >= 1),
  share_denominator integer NOT NULL,
  units integer NOT NULL CHECK (units >= 1),
  catalogue_version integer NOT NULL,
  version smallint NOT NULL,
  owner varchar(150) NOT NULL,
  namespace varchar(63) NOT NULL,
  pod_name varchar(253) NOT NULL,
  pod_uid varchar(64) NOT NULL,
  resource varchar(128) NOT NULL,
  node varchar(253) NOT NULL,
  size varchar(16) NOT NULL CHECK (size IN ('small', 'medium', 'large')),
  price_group varchar(96) NOT NULL,
  sharing_mode varchar(16) NOT NULL,
  -- Each column behind its length: no two facts make the same text. The service computes the same
  -- in metering/services/collection/composed.py to find the facts of an hour.
  digest uuid NOT NULL GENERATED ALWAYS AS (metering_fact_digest(
    '36:' || organization_id::text
    || '36:' || project_id::text
    || '36:' || cluster_id::text
    || length(owner)::text || ':' || owner
    || length(namespace)::text || ':' || namespace
    || length(pod_name)::text || ':' || pod_name
    || length(pod_uid)::text || ':' || pod_uid
    || length(resource)::text || ':' || resource
    || length(node)::text || ':' || node
    || length(size)::text || ':' || size
    || length(price_group)::text || ':' || price_group
    || length(sharing_mode)::text || ':' || sharing_mode
    || length(share_numerator::text)::text || ':' || share_numerator::text
    || length(share_denominator::text)::text || ':' || share_denominator::text
    || length(units::text)::text || ':' || units::text
    || length(catalogue_version::text)::text || ':' || catalogue_version::text)) STORED,
  PRIMARY KEY (id, version, organization_id),
  CONSTRAINT metering_fact_of_pod UNIQUE (
    cluster_id, pod_uid, resource, version, organization_id),
  CONSTRAINT metering_fact_share_is_a_fraction CHECK (share_denominator >= share_numerator)
);
ALTER SEQUENCE metering_usagefact_id_seq OWNED BY metering_usagefact.id;
CREATE TRIGGER metering_usagefact_numbers BEFORE INSERT ON metering_usagefact
  FOR EACH ROW EXECUTE FUNCTION metering_number_fact();
CREATE TRIGGER metering_usagefact_refuses_update BEFORE UPDATE ON metering_usagefact
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('what usage refers to is never edited');
CREATE TRIGGER metering_usagefact_refuses_delete BEFORE DELETE ON metering_usagefact
  FOR EACH ROW EXECUTE FUNCTION ledger_refuse('what usage refers to is kept');
CREATE TRIGGER metering_usagefact_refuses_truncate BEFORE TRUNCATE ON metering_usagefact
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse('what usage refers to is kept');
ALTER TABLE metering_usagefact
  ENABLE ALWAYS TRIGGER metering_usagefact_numbers,
  ENABLE ALWAYS TRIGGER metering_usagefact_refuses_update,
  ENABLE ALWAYS TRIGGER metering_usagefact_refuses_delete,
  ENABLE ALWAYS TRIGGER metering_usagefact_refuses_truncate;
REVOKE UPDATE, DELETE, TRUNCATE ON metering_usagefact FROM gpu_ledger_runtime;
-- reverse
DROP TABLE metering_usagefact;
