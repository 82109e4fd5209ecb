"""Pods keep an owner annotation that is not believed, and exceptions name it."""

from django.db import migrations, models

KINDS = (
    "unknown_device",
    "unbound_namespace",
    "unknown_node",
    "invalid_request",
    "inconsistent_metrics",
    "uncertain_end",
    "over_capacity",
    "low_coverage",
    "source_unavailable",
    "quarantined",
    "overdue",
    "differs",
    "kubernetes_only",
    "prometheus_only",
    "request_differs",
    "recovered",
    "single_source",
    "held_hour",
    "devices_unavailable",
    "unproven_owner",
)


class Migration(migrations.Migration):
    dependencies = [("metering", "0004_device_keys")]

    operations = [
        migrations.AddField(
            model_name="queuedpod",
            name="unproven_owner",
            field=models.CharField(blank=True, db_default="", default="", max_length=150),
        ),
        migrations.AlterField(
            model_name="meteringexception",
            name="kind",
            field=models.CharField(
                choices=[(kind, kind.replace("_", " ").capitalize()) for kind in KINDS],
                max_length=32,
            ),
        ),
    ]
