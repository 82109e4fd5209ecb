"""Schedules of exports, their runs, and the files of a run with their content."""

import django.core.validators
import django.db.models.deletion
from django.db import migrations, models

import tenants.domain.identifiers


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0052_closed_months"),
        ("tenants", "0005_notification_preferences"),
    ]

    operations = [
        migrations.CreateModel(
            name="ExportRun",
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
                ("month", models.CharField(max_length=7)),
                ("number", models.PositiveSmallIntegerField(default=1)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("delivering", "Delivering"),
                            ("done", "Done"),
                            ("failed", "Failed"),
                        ],
                        default="pending",
                        max_length=16,
                    ),
                ),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                ("next_at", models.DateTimeField()),
                ("fence", models.PositiveIntegerField(default=0)),
                ("note", models.CharField(blank=True, default="", max_length=300)),
                ("reason", models.CharField(blank=True, default="", max_length=40)),
                ("requested_by", models.CharField(max_length=200)),
                ("created_at", models.DateTimeField()),
                ("staged_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                ("purged_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ["-created_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="ExportFile",
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
                ("position", models.PositiveSmallIntegerField()),
                ("content", models.CharField(max_length=64)),
                ("name", models.CharField(max_length=200)),
                ("content_type", models.CharField(max_length=100)),
                ("size", models.BigIntegerField()),
                ("sha256", models.CharField(max_length=64)),
                ("delivered_at", models.DateTimeField(blank=True, null=True)),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="files",
                        to="billing.exportrun",
                    ),
                ),
            ],
            options={
                "ordering": ["run", "position"],
            },
        ),
        migrations.CreateModel(
            name="ExportSchedule",
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
                    "slug",
                    models.CharField(
                        max_length=63,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", "Use a-z, 0-9 and dashes."
                            )
                        ],
                    ),
                ),
                ("contents", models.JSONField(default=list)),
                (
                    "target",
                    models.CharField(
                        choices=[
                            ("mail", "Mail"),
                            ("bucket", "S3 bucket"),
                            ("sftp", "SFTP"),
                            ("webhook", "Webhook"),
                        ],
                        max_length=16,
                    ),
                ),
                ("address", models.CharField(max_length=500)),
                ("host_key", models.CharField(blank=True, default="", max_length=2100)),
                ("secret_reference", models.CharField(blank=True, default="", max_length=200)),
                ("day", models.PositiveSmallIntegerField(default=2)),
                ("hour", models.PositiveSmallIntegerField(default=6)),
                ("waits_for_close", models.BooleanField(default=True)),
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
                        related_name="export_schedules",
                        to="tenants.organization",
                    ),
                ),
            ],
            options={
                "ordering": ["slug"],
            },
        ),
        migrations.AddField(
            model_name="exportrun",
            name="schedule",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="runs",
                to="billing.exportschedule",
            ),
        ),
        migrations.CreateModel(
            name="ExportChunk",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("position", models.PositiveIntegerField()),
                ("content", models.BinaryField()),
                (
                    "file",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="chunks",
                        to="billing.exportfile",
                    ),
                ),
            ],
            options={
                "ordering": ["file", "position"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("file", "position"), name="export_chunk_position"
                    )
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="exportfile",
            constraint=models.UniqueConstraint(
                fields=("run", "position"), name="export_file_position"
            ),
        ),
        migrations.AddConstraint(
            model_name="exportfile",
            constraint=models.UniqueConstraint(fields=("run", "name"), name="export_file_name"),
        ),
        migrations.AddConstraint(
            model_name="exportschedule",
            constraint=models.CheckConstraint(
                condition=models.Q(("day__gte", 1), ("day__lte", 28), ("hour__lte", 23)),
                name="export_schedule_time",
            ),
        ),
        migrations.AddIndex(
            model_name="exportrun",
            index=models.Index(
                condition=models.Q(("state__in", ["pending", "delivering"])),
                fields=["next_at"],
                name="export_run_due",
            ),
        ),
        migrations.AddConstraint(
            model_name="exportrun",
            constraint=models.UniqueConstraint(
                fields=("schedule", "month", "number"), name="export_run_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="exportrun",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "done"), _negated=True),
                    models.Q(("finished_at__isnull", False), ("staged_at__isnull", False)),
                    _connector="OR",
                ),
                name="export_run_done_has_times",
            ),
        ),
    ]
