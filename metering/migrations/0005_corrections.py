from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("metering", "0004_settle_once")]

    operations = []
