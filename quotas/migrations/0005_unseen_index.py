"""The index of reservations that the watch has not observed, built beside running admission."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("quotas", "0004_unseen_reservations")]

    operations = [
        AddIndexConcurrently(
            model_name="reservation",
            index=models.Index(
                condition=models.Q(("expires_at__isnull", False), ("state", "reserved")),
                fields=["cluster", "namespace", "controller", "pod_name"],
                name="reservation_unseen",
            ),
        ),
    ]
