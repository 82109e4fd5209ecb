-- Rows are found by their id; window_start is in the key for partitions. A device row may have no
-- organization, so that only its natural key has organization_id.
ALTER TABLE metering_deviceusage
  DROP CONSTRAINT metering_deviceusage_pkey,
  ADD CONSTRAINT metering_deviceusage_pkey PRIMARY KEY (id, window_start);
-- reverse
ALTER TABLE metering_deviceusage
  DROP CONSTRAINT metering_deviceusage_pkey,
  ADD CONSTRAINT metering_deviceusage_pkey PRIMARY KEY (id);
