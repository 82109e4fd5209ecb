from django.db import migrations, models

TARGET = "enforcementtarget"
APPLIED = """
UPDATE quotas_enforcementtarget SET applied_hard = live_hard WHERE state = 'applied';
"""


def _document(name: str) -> migrations.AddField:
    empty = models.Value({}, models.JSONField())
    return migrations.AddField(TARGET, name, models.JSONField(db_default=empty, default=dict))


class Migration(migrations.Migration):
    dependencies = [("quotas", "0003_admission")]

    operations = [
        _document("applied_hard"),
        _document("applied_burst"),
        _document("ceiling_burst"),
        _document("live_burst"),
        _document("live_burst_used"),
        _document("foreign_quotas"),
        migrations.AddField(
            TARGET, "is_held", models.BooleanField(db_default=False, default=False)
        ),
        migrations.AddField(
            TARGET,
            "drift_managers",
            models.JSONField(
                blank=True, db_default=models.Value([], models.JSONField()), default=list
            ),
        ),
        migrations.AddField(
            TARGET, "drifts_repaired", models.PositiveIntegerField(db_default=0, default=0)
        ),
        migrations.RunSQL(APPLIED, migrations.RunSQL.noop),
    ]
