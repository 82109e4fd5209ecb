from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("metering", "0006_devices")]

    operations = []
