import django.db.models.deletion
from django.db import migrations, models

from tenants.migrations._ledger import RUNTIME_ROLE, always, drop_refusals, drop_triggers, refuse

GRANTS = "quotas_quotagrant"
SUSPENSIONS = "quotas_quotasuspension"

HOLDER_FUNCTION = """
CREATE FUNCTION quota_grant_name_holder() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  SELECT organization_id, project_id INTO NEW.organization_id, NEW.project_id
    FROM quotas_quotalimit WHERE id = NEW.limit_id;
  RETURN NEW;
END $$;
"""
GRANT_EDITED = """
  OLD.units <> NEW.units OR OLD.reason <> NEW.reason OR OLD.reference <> NEW.reference
  OR OLD.note <> NEW.note OR OLD.created_at <> NEW.created_at
  OR OLD.organization_id <> NEW.organization_id
  OR OLD.project_id IS DISTINCT FROM NEW.project_id
  OR (NEW.limit_id IS NOT NULL AND NEW.limit_id IS DISTINCT FROM OLD.limit_id)
  OR (NOT isempty(NEW.valid) AND lower(NEW.valid) IS DISTINCT FROM lower(OLD.valid))
"""
SUSPENSION_EDITED = """
  OLD.end_at IS NOT NULL OR OLD.reason <> NEW.reason OR OLD.source <> NEW.source
  OR OLD.begin_at <> NEW.begin_at OR OLD.organization_id <> NEW.organization_id
  OR OLD.project_id IS DISTINCT FROM NEW.project_id
"""


def kept(table: str, *, edited: str, reason: str) -> str:
    """Return SQL after which rows of a table are ended, and never edited otherwise or deleted."""
    return (
        refuse(table, operation="UPDATE", reason=reason, when=edited)
        + refuse(table, operation="DELETE", reason=reason)
        + refuse(table, operation="TRUNCATE", reason=reason)
        + f"REVOKE DELETE, TRUNCATE ON {table} FROM {RUNTIME_ROLE};\n"
    )


def dropped(table: str) -> str:
    """Return SQL that undoes `kept`."""
    return drop_refusals(table) + f"GRANT DELETE ON {table} TO {RUNTIME_ROLE};\n"


class Migration(migrations.Migration):
    dependencies = [("quotas", "0008_fair_use")]

    operations = [
        migrations.RemoveConstraint(model_name="quotagrant", name="quota_grant_has_a_begin"),
        migrations.AddField(
            model_name="quotagrant",
            name="organization",
            field=models.ForeignKey(
                default=None,
                editable=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="quota_grants",
                to="tenants.organization",
            ),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="quotagrant",
            name="project",
            field=models.ForeignKey(
                blank=True,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="quota_grants",
                to="tenants.project",
            ),
        ),
        migrations.AlterField(
            model_name="quotagrant",
            name="limit",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="grants",
                to="quotas.quotalimit",
            ),
        ),
        migrations.AddConstraint(
            model_name="quotagrant",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("valid__isempty", True),
                    ("valid__startswith__isnull", False),
                    _connector="OR",
                ),
                name="quota_grant_has_a_begin",
            ),
        ),
        migrations.RunSQL(
            HOLDER_FUNCTION
            + always(
                GRANTS,
                f"{GRANTS}_names_holder",
                f"BEFORE INSERT ON {GRANTS} FOR EACH ROW "
                "EXECUTE FUNCTION quota_grant_name_holder()",
            )
            + kept(GRANTS, edited=GRANT_EDITED, reason="a grant is ended, and kept")
            + kept(SUSPENSIONS, edited=SUSPENSION_EDITED, reason="a suspension is ended, and kept"),
            reverse_sql=drop_triggers(GRANTS, f"{GRANTS}_names_holder")
            + "DROP FUNCTION quota_grant_name_holder();\n"
            + dropped(GRANTS)
            + dropped(SUSPENSIONS),
        ),
    ]
