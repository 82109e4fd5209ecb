-- The first half of the SHA-256 over a text.
CREATE FUNCTION metering_fact_digest(fact text) RETURNS uuid LANGUAGE plpgsql
IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN encode(substring(sha256(convert_to(fact, 'UTF8')) FROM 1 FOR 16), 'hex')::uuid;
END $$;
-- reverse
DROP FUNCTION metering_fact_digest;
