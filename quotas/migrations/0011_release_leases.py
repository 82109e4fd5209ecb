"""One process of a cluster releases its unseen reservations."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0010_refused_pods"),
        ("tenants", "0001_tables"),
    ]

    operations = [
        migrations.CreateModel(
            name="ReleaseLease",
            fields=[
                (
                    "cluster",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="release_lease",
                        serialize=False,
                        to="tenants.cluster",
                    ),
                ),
                ("holder", models.CharField(max_length=64)),
                ("lease_until", models.DateTimeField()),
            ],
        ),
    ]
