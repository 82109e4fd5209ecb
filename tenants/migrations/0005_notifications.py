from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("tenants", "0004_clusters_that_admit")]

    operations = []
