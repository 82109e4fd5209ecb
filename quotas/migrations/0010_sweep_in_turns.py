from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("quotas", "0009_limits")]

    operations = []
