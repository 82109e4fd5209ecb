"""Incidents: exceptions of one cause about one thing in one cluster have one key."""

from django.db import migrations, models
from django.db.models import Func

from tenants.migrations._sql import install


class Migration(migrations.Migration):
    dependencies = [
        ("metering", "0007_accepted_credits"),
        ("tenants", "0004_countries_and_languages"),
    ]

    operations = [
        *install("metering/sql/metering_incident.v1.sql"),
        migrations.AddField(
            model_name="meteringexception",
            name="incident",
            field=models.GeneratedField(
                db_persist=True,
                expression=Func(
                    "cluster",
                    "kind",
                    "namespace",
                    "subject",
                    "details",
                    function="metering_incident",
                    output_field=models.UUIDField(),
                ),
                output_field=models.UUIDField(),
            ),
        ),
        migrations.AddIndex(
            model_name="meteringexception",
            index=models.Index(
                fields=["incident", "window_start"], name="metering_exception_alike"
            ),
        ),
    ]
