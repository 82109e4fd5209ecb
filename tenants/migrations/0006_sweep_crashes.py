from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0005_notifications")]

    operations = [
        migrations.CreateModel(
            name="SweepCrash",
            fields=[
                ("event", models.CharField(max_length=100, primary_key=True, serialize=False)),
                ("count", models.BigIntegerField(default=1)),
                ("first_at", models.DateTimeField()),
                ("last_at", models.DateTimeField()),
                ("last_key", models.CharField(blank=True, default="", max_length=200)),
                ("last_error", models.CharField(blank=True, default="", max_length=200)),
            ],
            options={
                "verbose_name_plural": "sweep crashes",
                "ordering": ["event"],
            },
        ),
    ]
