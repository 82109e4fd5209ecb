from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0008_process_clocks")]

    operations = [
        migrations.AddField(
            model_name="cluster",
            name="metered_until",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddConstraint(
            model_name="cluster",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("metered_until__isnull", True),
                    ("metered_until__gt", models.F("metered_from")),
                    _connector="OR",
                ),
                name="cluster_metered_until_after_from",
            ),
        ),
    ]
