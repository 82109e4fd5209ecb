import django.db.models.deletion
from django.db import migrations, models

from tenants.migrations._ledger import (
    RUNTIME_ROLE,
    drop_refusals,
    refuse,
)

CHARGE = "billing_charge"
ACCRUED = "billing_accruedcorrection"
BEFORE = (
    "(OLD.id, OLD.window_id, OLD.window_start, OLD.cluster_id, OLD.organization_id,"
    " OLD.project_id, OLD.owner, OLD.size, OLD.price_group, OLD.tier, OLD.price_id,"
    " OLD.unit_price, OLD.currency, OLD.unit_seconds, OLD.period_id, OLD.created_at)"
)
KEPT = BEFORE.replace("OLD.id,", "OLD.id, OLD.correction_id,")


def _keep(kept: str) -> str:
    """Return SQL after which only the link of a charge changes."""
    return f"DROP TRIGGER {CHARGE}_refuses_update ON {CHARGE};\n" + refuse(
        CHARGE,
        operation="UPDATE",
        reason="only the link to a line changes",
        when=f"{kept} IS DISTINCT FROM {kept.replace('OLD.', 'NEW.')}",
    )


FROZEN = (
    refuse(
        ACCRUED,
        operation="UPDATE",
        reason="its usage is charged in full",
        when="OLD.is_complete",
    )
    + refuse(ACCRUED, operation="DELETE", reason="accrual is never undone")
    + refuse(ACCRUED, operation="TRUNCATE", reason="accrual is never undone")
    + f"REVOKE DELETE, TRUNCATE ON {ACCRUED} FROM {RUNTIME_ROLE};\n"
)


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0002_billing_ledger"),
        ("tenants", "0003_two_sources"),
    ]

    operations = [
        migrations.CreateModel(
            name="AccruedCorrection",
            fields=[
                ("correction_id", models.UUIDField(primary_key=True, serialize=False)),
                ("window_id", models.BigIntegerField()),
                ("window_start", models.DateTimeField()),
                ("usage_unit_seconds", models.BigIntegerField()),
                ("charged_unit_seconds", models.BigIntegerField()),
                ("is_complete", models.BooleanField()),
                ("accrued_at", models.DateTimeField()),
            ],
            options={
                "ordering": ["window_start", "correction_id"],
            },
        ),
        migrations.RemoveConstraint(
            model_name="accrualexception",
            name="accrual_exception_unique",
        ),
        migrations.RemoveConstraint(
            model_name="charge",
            name="charge_unique",
        ),
        migrations.AddField(
            model_name="accrualexception",
            name="correction_id",
            field=models.UUIDField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="charge",
            name="correction_id",
            field=models.UUIDField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="invoiceline",
            name="billed_unit_seconds",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="invoiceline",
            name="service_period",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="late_lines",
                to="billing.billingperiod",
            ),
        ),
        migrations.AddIndex(
            model_name="charge",
            index=models.Index(
                condition=models.Q(("correction_id__isnull", False)),
                fields=["correction_id"],
                name="charge_by_correction",
            ),
        ),
        migrations.AddConstraint(
            model_name="accrualexception",
            constraint=models.UniqueConstraint(
                fields=("window_id", "project", "size", "price_group", "correction_id"),
                name="accrual_exception_unique",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="charge",
            constraint=models.UniqueConstraint(
                fields=(
                    "window_id",
                    "project",
                    "owner",
                    "size",
                    "price_group",
                    "tier",
                    "price",
                    "correction_id",
                ),
                name="charge_unique",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="charge",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("unit_seconds__gte", 0), ("correction_id__isnull", False), _connector="OR"
                ),
                name="charge_only_a_correction_is_negative",
            ),
        ),
        migrations.AddField(
            model_name="accruedcorrection",
            name="organization",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="tenants.organization",
            ),
        ),
        migrations.AddConstraint(
            model_name="accruedcorrection",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("is_complete", False),
                    ("charged_unit_seconds", models.F("usage_unit_seconds")),
                    _connector="OR",
                ),
                name="accrued_correction_complete_means_equal",
            ),
        ),
        migrations.RunSQL(_keep(KEPT), _keep(BEFORE)),
        migrations.RunSQL(FROZEN, drop_refusals(ACCRUED)),
    ]
