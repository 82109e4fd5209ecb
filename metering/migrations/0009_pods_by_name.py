"""Indexes of what the sidebar searches pods by: the beginning of a name or uid, in any case."""

from django.contrib.postgres.indexes import OpClass
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models.functions import Upper


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("metering", "0010_changes")]

    operations = [
        AddIndexConcurrently(
            model_name="podallocation",
            index=models.Index(
                OpClass(Upper("pod_name"), name="text_pattern_ops"), name="allocation_by_name"
            ),
        ),
        AddIndexConcurrently(
            model_name="podallocation",
            index=models.Index(
                OpClass(Upper("pod_uid"), name="text_pattern_ops"), name="allocation_by_uid"
            ),
        ),
    ]
