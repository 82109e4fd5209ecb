from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("metering", "0005_corrections")]

    operations = []
