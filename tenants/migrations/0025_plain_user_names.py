from django.db import migrations

from tenants.migrations._ledger import always, drop_triggers

USERS = "auth_user"

# Names from before stay as they are, so that a check of all rows could not be made. New names have
# lower-case letters only: two of them that differ in case only cannot come at once, and an older
# one is there to be seen.
PLAIN = r"""
CREATE FUNCTION user_name_is_plain() RETURNS trigger LANGUAGE plpgsql
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
"""
TRIGGER = always(
    USERS,
    f"{USERS}_name_is_plain",
    f"BEFORE INSERT OR UPDATE OF username ON {USERS} FOR EACH ROW"
    " EXECUTE FUNCTION user_name_is_plain()",
)


class Migration(migrations.Migration):
    dependencies = [("tenants", "0024_decisions_stay")]

    operations = [
        migrations.RunSQL(
            PLAIN + TRIGGER,
            drop_triggers(USERS, f"{USERS}_name_is_plain")
            + "DROP FUNCTION user_name_is_plain();\n",
        ),
    ]
