from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("metering", "0012_unobserved")]

    operations = [
        migrations.AddField(
            model_name="meteringwindow",
            name="shown",
            field=models.JSONField(
                blank=True,
                db_default=models.Value({}, models.JSONField()),
                default=dict,
            ),
        ),
        migrations.AddField(
            model_name="meteringwindow",
            name="decided_on",
            field=models.JSONField(
                blank=True,
                db_default=models.Value({}, models.JSONField()),
                default=dict,
            ),
        ),
        migrations.AlterField(
            model_name="meteringexception",
            name="kind",
            field=models.CharField(
                choices=[
                    ("unknown_device", "Unknown device"),
                    ("unbound_namespace", "Unbound namespace"),
                    ("unknown_node", "Unknown node"),
                    ("invalid_request", "Invalid request"),
                    ("inconsistent_metrics", "Inconsistent metrics"),
                    ("uncertain_end", "Uncertain end"),
                    ("over_capacity", "Over capacity"),
                    ("low_coverage", "Low coverage"),
                    ("source_unavailable", "Source unavailable"),
                    ("quarantined", "Quarantined"),
                    ("overdue", "Overdue"),
                    ("differs", "Differs"),
                    ("kubernetes_only", "Kubernetes only"),
                    ("prometheus_only", "Prometheus only"),
                    ("request_differs", "Request differs"),
                    ("recovered", "Recovered"),
                    ("single_source", "Single source"),
                    ("held_hour", "Held hour"),
                ],
                max_length=32,
            ),
        ),
    ]
