from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("quotas", "0002_limits_and_live_use")]

    operations = []
