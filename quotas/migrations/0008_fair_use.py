import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import tenants.domain.identifiers


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0007_isolation"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="LoanPolicy",
            fields=[
                (
                    "organization",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="loan_policy",
                        serialize=False,
                        to="tenants.organization",
                    ),
                ),
                (
                    "mode",
                    models.CharField(
                        choices=[
                            ("off", "Off"),
                            ("propose", "Propose"),
                            ("automatic", "Automatic"),
                        ],
                        default="propose",
                        max_length=16,
                    ),
                ),
                ("max_units", models.PositiveIntegerField(default=8)),
                ("max_days", models.PositiveIntegerField(default=7)),
                ("keep_free_percent", models.PositiveIntegerField(default=20)),
                ("version", models.PositiveIntegerField(default=1)),
                ("changed_at", models.DateTimeField()),
            ],
            options={
                "verbose_name_plural": "loan policies",
                "ordering": ["organization__slug"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("keep_free_percent__lte", 100),
                            ("max_days__gte", 1),
                            ("max_days__lte", 92),
                            ("max_units__gte", 1),
                        ),
                        name="loan_policy_sensible",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="QuotaLoan",
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
                    "size",
                    models.CharField(
                        choices=[("small", "Small"), ("medium", "Medium"), ("large", "Large")],
                        max_length=16,
                    ),
                ),
                (
                    "model_group",
                    models.CharField(blank=True, db_default="", default="", max_length=32),
                ),
                ("units", models.PositiveIntegerField()),
                ("begin_at", models.DateTimeField(blank=True, null=True)),
                ("end_at", models.DateTimeField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("proposed", "Proposed"),
                            ("active", "Active"),
                            ("declined", "Declined"),
                            ("lapsed", "Lapsed"),
                            ("ended", "Ended"),
                            ("recalled", "Recalled"),
                        ],
                        default="proposed",
                        max_length=16,
                    ),
                ),
                ("lender_idle_units", models.PositiveIntegerField()),
                ("borrower_missing_units", models.PositiveIntegerField()),
                ("is_automatic", models.BooleanField(db_default=False, default=False)),
                ("decided_at", models.DateTimeField(blank=True, null=True)),
                ("note", models.TextField(blank=True, default="")),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField()),
                (
                    "borrower",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="loans_taken",
                        to="tenants.project",
                    ),
                ),
                (
                    "cluster",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.cluster",
                    ),
                ),
                (
                    "decided_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "lender",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="loans_given",
                        to="tenants.project",
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="quota_loans",
                        to="tenants.organization",
                    ),
                ),
            ],
            options={
                "ordering": ["-created_at", "id"],
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "active")),
                        fields=["end_at"],
                        name="quota_loan_ending",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("lender", models.F("borrower")), _negated=True),
                        name="quota_loan_is_between_two",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("units__gte", 1)), name="quota_loan_is_something"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("begin_at__isnull", True),
                            ("end_at__gte", models.F("begin_at")),
                            _connector="OR",
                        ),
                        name="quota_loan_forward",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("begin_at__isnull", True),
                                ("state__in", ["proposed", "declined", "lapsed"]),
                            ),
                            models.Q(
                                ("begin_at__isnull", False),
                                ("state__in", ["active", "ended", "recalled"]),
                            ),
                            _connector="OR",
                        ),
                        name="quota_loan_in_force_has_a_begin",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("state", "proposed")),
                        fields=("lender", "borrower", "size", "model_group", "cluster"),
                        name="quota_loan_proposed_once",
                        nulls_distinct=False,
                    ),
                ],
            },
        ),
    ]
