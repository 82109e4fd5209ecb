from django.db import migrations, models

# The rules that the product brings are stored by a statement that names neither.
DEFAULTS = """
ALTER TABLE metering_catalogueversion ALTER COLUMN note SET DEFAULT '',
  ALTER COLUMN created_by SET DEFAULT '';
"""
NO_DEFAULTS = """
ALTER TABLE metering_catalogueversion ALTER COLUMN note DROP DEFAULT,
  ALTER COLUMN created_by DROP DEFAULT;
"""


class Migration(migrations.Migration):
    dependencies = [("metering", "0007_waste_and_health")]

    operations = [
        migrations.AddField(
            model_name="catalogueversion",
            name="note",
            field=models.TextField(blank=True, default=""),
        ),
        migrations.AddField(
            model_name="catalogueversion",
            name="created_by",
            field=models.CharField(blank=True, default="", max_length=150),
        ),
        migrations.RunSQL(DEFAULTS, NO_DEFAULTS),
    ]
