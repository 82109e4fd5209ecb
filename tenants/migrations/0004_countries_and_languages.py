"""Organizations have the country of their billing address, and a language of their documents."""

from django.core.validators import RegexValidator
from django.db import migrations, models

COUNTRY = RegexValidator(r"^[A-Z]{2}$", "Use the two capital letters of ISO 3166-1, such as DE.")


class Migration(migrations.Migration):
    dependencies = [("tenants", "0003_triggers")]

    operations = [
        migrations.AddField(
            model_name="organization",
            name="country",
            field=models.CharField(
                max_length=2, blank=True, default="", db_default="", validators=[COUNTRY]
            ),
        ),
        migrations.AddField(
            model_name="organization",
            name="language",
            field=models.CharField(
                choices=[("en", "English"), ("de", "German")],
                db_default="en",
                default="en",
                max_length=2,
            ),
        ),
    ]
