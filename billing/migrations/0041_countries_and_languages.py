"""Issuers and recipients have the country of their address, recipients a language."""

from django.core.validators import RegexValidator
from django.db import migrations, models

COUNTRY = RegexValidator(r"^[A-Z]{2}$", "Use the two capital letters of ISO 3166-1, such as DE.")


def country() -> "models.CharField[str, str]":
    return models.CharField(
        max_length=2, blank=True, default="", db_default="", validators=[COUNTRY]
    )


class Migration(migrations.Migration):
    dependencies = [("billing", "0040_daily_costs")]

    operations = [
        migrations.AddField(model_name="issuer", name="country", field=country()),
        migrations.AddField(model_name="recipient", name="country", field=country()),
        migrations.AddField(
            model_name="recipient",
            name="language",
            field=models.CharField(
                blank=True,
                choices=[("en", "English"), ("de", "German")],
                db_default="",
                default="",
                max_length=2,
            ),
        ),
    ]
