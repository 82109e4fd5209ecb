"""Indexes of what changed since a time: exceptions, corrections, and hours by their seal."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models.functions import Greatest


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("metering", "0008_incidents")]

    operations = [
        AddIndexConcurrently(
            model_name="meteringexception",
            index=models.Index(
                Greatest("created_at", "resolved_at"), name="metering_exception_updated"
            ),
        ),
        AddIndexConcurrently(
            model_name="usagecorrection",
            index=models.Index(
                Greatest("requested_at", "decided_at"), name="usage_correction_updated"
            ),
        ),
        AddIndexConcurrently(
            model_name="meteringwindow",
            index=models.Index(fields=["sealed_at"], name="window_by_seal"),
        ),
    ]
