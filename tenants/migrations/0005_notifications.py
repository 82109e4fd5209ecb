import django.db.models.deletion
from django.db import migrations, models

import tenants.domain.identifiers


class Migration(migrations.Migration):
    dependencies = [("tenants", "0004_clusters_that_admit")]

    operations = [
        migrations.CreateModel(
            name="Notification",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tenants.domain.identifiers.new_id,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("event", models.CharField(max_length=100)),
                ("subject", models.CharField(max_length=200)),
                ("text", models.TextField()),
                ("facts", models.JSONField(default=dict)),
                ("key", models.CharField(blank=True, max_length=200, null=True, unique=True)),
                ("occurred_at", models.DateTimeField()),
                (
                    "organization",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="notifications",
                        to="tenants.organization",
                    ),
                ),
            ],
            options={
                "ordering": ["-occurred_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="NotificationEndpoint",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tenants.domain.identifiers.new_id,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("mail", "Mail"), ("webhook", "Webhook")], max_length=16
                    ),
                ),
                ("address", models.CharField(max_length=500)),
                ("events", models.JSONField(default=list)),
                ("secret_reference", models.CharField(blank=True, default="", max_length=200)),
                (
                    "state",
                    models.CharField(
                        choices=[("active", "Active"), ("closed", "Closed")],
                        default="active",
                        max_length=16,
                    ),
                ),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField()),
                (
                    "organization",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="notification_endpoints",
                        to="tenants.organization",
                    ),
                ),
            ],
            options={
                "ordering": ["created_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="NotificationDelivery",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tenants.domain.identifiers.new_id,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("mail", "Mail"), ("webhook", "Webhook")], max_length=16
                    ),
                ),
                ("address", models.CharField(max_length=500)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("sent", "Sent"),
                            ("skipped", "Skipped"),
                            ("given_up", "Given Up"),
                        ],
                        default="pending",
                        max_length=16,
                    ),
                ),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("next_at", models.DateTimeField()),
                ("sent_at", models.DateTimeField(blank=True, null=True)),
                ("last_error", models.CharField(blank=True, default="", max_length=200)),
                ("created_at", models.DateTimeField()),
                (
                    "notification",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="deliveries",
                        to="tenants.notification",
                    ),
                ),
                (
                    "endpoint",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="deliveries",
                        to="tenants.notificationendpoint",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "notification deliveries",
                "ordering": ["-created_at", "id"],
            },
        ),
        migrations.AddConstraint(
            model_name="notificationendpoint",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "active")),
                fields=("organization", "address"),
                name="notification_endpoint_once",
                nulls_distinct=False,
            ),
        ),
        migrations.AddIndex(
            model_name="notificationdelivery",
            index=models.Index(
                condition=models.Q(("state", "pending")),
                fields=["next_at"],
                name="notification_delivery_due",
            ),
        ),
        migrations.AddConstraint(
            model_name="notificationdelivery",
            constraint=models.UniqueConstraint(
                fields=("notification", "kind", "address"), name="notification_delivery_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="notificationdelivery",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "sent"), _negated=True),
                    ("sent_at__isnull", False),
                    _connector="OR",
                ),
                name="notification_delivery_sent_has_a_time",
            ),
        ),
    ]
