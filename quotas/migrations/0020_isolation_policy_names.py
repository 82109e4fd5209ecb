from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("quotas", "0019_decisions_stay")]

    operations = [
        migrations.RenameField(
            "isolationpolicy", "may_meet_tenants", "allow_shared_with_other_tenants"
        ),
    ]
