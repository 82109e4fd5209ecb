-- New names have lower-case letters only, so that two names never differ in case only.
CREATE OR REPLACE FUNCTION user_name_is_plain() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND NEW.username IS NOT DISTINCT FROM OLD.username THEN
    RETURN NEW;
  END IF;
  IF NEW.username COLLATE "C" !~ '^[a-z0-9]([a-z0-9._@+-]*[a-z0-9])?$' THEN
    RAISE EXCEPTION '% on auth_user is refused: the user name is not plain', TG_OP
      USING ERRCODE = 'restrict_violation',
            HINT = 'Lower-case letters a to z, digits and . _ @ + - inside.';
  END IF;
  IF EXISTS (SELECT FROM auth_user WHERE lower(username) = NEW.username AND id <> NEW.id) THEN
    RAISE EXCEPTION '% on auth_user is refused: the user name is taken', TG_OP
      USING ERRCODE = 'unique_violation', CONSTRAINT = 'auth_user_username_key';
  END IF;
  RETURN NEW;
END $$;
-- reverse
DROP FUNCTION user_name_is_plain;
