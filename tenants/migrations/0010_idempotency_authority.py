from django.db import migrations, models


class Migration(migrations.Migration):
    """Answers stored before say nothing of scopes, so that their fingerprints match none."""

    dependencies = [("tenants", "0009_metered_until")]

    operations = [
        migrations.AddField(
            model_name="idempotencyrecord",
            name="roles",
            field=models.JSONField(default=list),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="idempotencyrecord",
            name="refused_at",
            field=models.DateTimeField(null=True),
        ),
    ]
