from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("quotas", "0007_isolation")]

    operations = []
