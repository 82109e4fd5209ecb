from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("quotas", "0008_fair_use")]

    operations = []
