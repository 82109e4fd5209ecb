"""People choose what they are mailed about; notifications have translations and a document."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

LANGUAGES = [("en", "English"), ("de", "German")]


def language() -> "models.CharField[str, str]":
    return models.CharField(blank=True, choices=LANGUAGES, db_default="", default="", max_length=2)


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0004_countries_and_languages"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="notification",
            name="translations",
            field=models.JSONField(db_default={}, default=dict),
        ),
        migrations.AddField(
            model_name="notification",
            name="document_id",
            field=models.UUIDField(blank=True, null=True),
        ),
        migrations.AddField(model_name="notificationdelivery", name="language", field=language()),
        migrations.CreateModel(
            name="NotificationPreference",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="notification_preference",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("muted_events", models.JSONField(blank=True, default=list)),
                ("language", language()),
                ("version", models.PositiveIntegerField(default=1)),
                ("changed_at", models.DateTimeField()),
            ],
            options={"ordering": ["user"]},
        ),
    ]
