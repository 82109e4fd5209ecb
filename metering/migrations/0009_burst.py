from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("metering", "0008_catalogue")]

    operations = []
