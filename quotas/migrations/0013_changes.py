"""Indexes of what changed since a time: limits and requests."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models.functions import Greatest


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("quotas", "0012_webhook_secrets")]

    operations = [
        AddIndexConcurrently(
            model_name="quotalimit",
            index=models.Index(fields=["changed_at"], name="quota_limit_by_change"),
        ),
        AddIndexConcurrently(
            model_name="quotarequest",
            index=models.Index(
                Greatest("created_at", "decided_at"), name="quota_request_by_change"
            ),
        ),
    ]
