from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    # Pods are admitted while these are made: no table is locked for it.
    atomic = False
    dependencies = [("quotas", "0011_admit_many")]

    operations = [
        AddIndexConcurrently(
            model_name="reservation",
            index=models.Index(
                condition=models.Q(("state", "released")),
                fields=["released_at"],
                name="reservation_released",
            ),
        ),
        AddIndexConcurrently(
            model_name="admissionrefusal",
            index=models.Index(fields=["last_at"], name="admission_refusal_last"),
        ),
    ]
