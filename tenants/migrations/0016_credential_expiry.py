from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0015_verifications")]

    operations = [
        migrations.AddField(
            model_name="cluster",
            name="credential_expires_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
