"""Reservations of pods that the watch has not observed are replaced, or released by proof."""

from django.db import migrations, models

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("quotas", "0003_triggers")]

    operations = [
        migrations.AlterField(
            model_name="reservation",
            name="release_reason",
            field=models.CharField(
                blank=True,
                choices=[
                    ("ended", "Ended"),
                    ("expired", "Expired"),
                    ("replaced", "Replaced"),
                    ("absent", "Absent"),
                    ("gone", "Gone"),
                    ("handed_over", "Handed Over"),
                    ("unbound", "Unbound"),
                    ("unsized", "Unsized"),
                ],
                db_default="",
                default="",
                max_length=16,
            ),
        ),
        *install(
            "quotas/sql/quotas_release.v1.sql",
            "quotas/sql/quotas_release_unseen.v1.sql",
            "quotas/sql/quotas_settle.v2.sql",
            "quotas/sql/quotas_wanted.v2.sql",
            "quotas/sql/quotas_wanted_of.v2.sql",
            "quotas/sql/quotas_decide.v2.sql",
        ),
    ]
