import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0017_sign_in_limits"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterField(
            model_name="attemptcount",
            name="kind",
            field=models.CharField(
                choices=[
                    ("account", "An account, from networks it is not known from"),
                    ("network", "A network, for accounts not known from it"),
                    ("device", "An account in a browser that it has signed in with"),
                    ("pair", "An account from one network it is known from"),
                    ("token", "API tokens from a network"),
                    ("link", "Links to set a password that a network asks for"),
                    ("link_to", "Links to set a password for an address"),
                    ("forged", "Links that were never sent, from a network"),
                    ("inviter", "Invitations by an account"),
                    ("invited", "Invitations to an address"),
                ],
                max_length=8,
            ),
        ),
        migrations.CreateModel(
            name="PasswordLinkRequest",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("email", models.EmailField(max_length=254)),
                ("left_address", models.EmailField(blank=True, default="", max_length=254)),
                ("asked_at", models.DateTimeField()),
                (
                    "person",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
    ]
