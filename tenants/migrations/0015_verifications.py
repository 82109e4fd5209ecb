from django.db import migrations, models

from tenants.migrations._ledger import drop_refusals, refuse

VERIFICATION = "tenants_verification"


class Migration(migrations.Migration):
    dependencies = [("tenants", "0014_audited_writes")]

    operations = [
        migrations.CreateModel(
            name="Verification",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("started_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("check_name", models.CharField(blank=True, default="", max_length=64)),
                ("cursor", models.JSONField(default=dict)),
                ("counts", models.JSONField(default=dict)),
                ("differences", models.JSONField(default=list)),
                ("difference_count", models.PositiveIntegerField(default=0)),
                ("audit_count", models.BigIntegerField(default=0)),
                ("audit_digest", models.CharField(blank=True, default="", max_length=64)),
            ],
            options={"ordering": ["-id"]},
        ),
        migrations.RunSQL(
            refuse(
                VERIFICATION,
                operation="UPDATE",
                reason="a verification that has ended is kept",
                when="OLD.ended_at IS NOT NULL",
            )
            + refuse(VERIFICATION, operation="DELETE", reason="verifications are kept")
            + refuse(VERIFICATION, operation="TRUNCATE", reason="verifications are kept"),
            drop_refusals(VERIFICATION),
        ),
    ]
