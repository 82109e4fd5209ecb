from django.db import migrations, models

from tenants.migrations._indexes import add_index


class Migration(migrations.Migration):
    # Pods are admitted while these are made: no table is locked for it.
    atomic = False
    dependencies = [("quotas", "0011_admit_many")]

    operations = [
        *add_index(
            "reservation",
            models.Index(
                condition=models.Q(("state", "released")),
                fields=["released_at"],
                name="reservation_released",
            ),
        ),
        *add_index(
            "admissionrefusal",
            models.Index(fields=["last_at"], name="admission_refusal_last"),
        ),
    ]
