from django.db import migrations, models

from tenants.migrations._ledger import drop_triggers, refuse

WINDOW = "quotas_protectedwindow"
PROMISED = (
    "(OLD.id, OLD.organization_id, OLD.project_id, OLD.reason, OLD.created_by, OLD.created_at)"
)
CHANGED = (
    f"{PROMISED} IS DISTINCT FROM {PROMISED.replace('OLD.', 'NEW.')}"
    " OR lower(OLD.valid) <> lower(NEW.valid)"
)
BEFORE = refuse(
    WINDOW,
    operation="UPDATE",
    reason="only the end of a protected window moves",
    when=CHANGED,
)
# What was cancelled stays so, with its times.
AFTER = refuse(
    WINDOW,
    operation="UPDATE",
    reason="only the end of a protected window moves",
    when=f"{CHANGED} OR OLD.cancelled_at IS NOT NULL",
)
DROP = drop_triggers(WINDOW, f"{WINDOW}_refuses_update")


class Migration(migrations.Migration):
    dependencies = [("quotas", "0014_preemption_policies")]

    operations = [
        migrations.AddField(
            model_name="protectedwindow",
            name="cancelled_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddConstraint(
            model_name="protectedwindow",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("cancelled_at__isnull", True),
                    ("cancelled_at__lte", models.F("valid__startswith")),
                    _connector="OR",
                ),
                name="protected_window_cancelled_before_begin",
            ),
        ),
        migrations.RunSQL(DROP + AFTER, DROP + BEFORE),
    ]
