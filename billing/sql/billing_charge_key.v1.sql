-- Rows are found by their id; window_start and organization_id are in the key for partitions and
-- shards.
ALTER TABLE billing_charge
  DROP CONSTRAINT billing_charge_pkey,
  ADD CONSTRAINT billing_charge_pkey PRIMARY KEY (id, window_start, organization_id);
-- reverse
ALTER TABLE billing_charge
  DROP CONSTRAINT billing_charge_pkey,
  ADD CONSTRAINT billing_charge_pkey PRIMARY KEY (id);
