from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("billing", "0003_corrections")]

    operations = []
