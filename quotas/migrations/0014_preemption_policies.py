from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("quotas", "0013_retention")]

    operations = [
        migrations.AlterModelOptions(
            name="preemptionpolicy",
            options={
                "ordering": ["organization"],
                "verbose_name_plural": "preemption policies",
            },
        ),
    ]
