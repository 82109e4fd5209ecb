from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("metering", "0007_waste_and_health")]

    operations = []
