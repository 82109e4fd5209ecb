from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("quotas", "0006_requests")]

    operations = []
