"""Labels of nodes once a set, not once a pod."""

import django.db.models.deletion
from django.db import migrations, models

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [("metering", "0013_write_usage_faster")]

    operations = [
        migrations.CreateModel(
            name="NodeLabelSet",
            fields=[
                ("id", models.AutoField(primary_key=True, serialize=False)),
                ("digest", models.BinaryField(unique=True)),
                ("labels", models.JSONField()),
            ],
        ),
        migrations.AddField(
            model_name="podallocation",
            name="label_set",
            field=models.ForeignKey(
                blank=True,
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="metering.nodelabelset",
            ),
        ),
        *install("metering/sql/metering_label_sets.v1.sql"),
        migrations.RemoveField(model_name="podallocation", name="node_labels"),
    ]
