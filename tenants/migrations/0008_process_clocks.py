from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0007_retention")]

    operations = [
        migrations.CreateModel(
            name="ProcessClock",
            fields=[
                ("process", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("offset_seconds", models.BigIntegerField()),
                ("observed_at", models.DateTimeField()),
            ],
            options={"ordering": ["process"]},
        ),
    ]
