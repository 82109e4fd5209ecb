-- Entries are found by their id; occurred_at is in the key for partitions. An entry may have no
-- organization.
ALTER TABLE tenants_auditentry
  DROP CONSTRAINT tenants_auditentry_pkey,
  ADD CONSTRAINT tenants_auditentry_pkey PRIMARY KEY (id, occurred_at);
-- reverse
ALTER TABLE tenants_auditentry
  DROP CONSTRAINT tenants_auditentry_pkey,
  ADD CONSTRAINT tenants_auditentry_pkey PRIMARY KEY (id);
