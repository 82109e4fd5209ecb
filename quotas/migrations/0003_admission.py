from typing import Any

import django.db.models.deletion
from django.db import migrations, models

from quotas.migrations._admission import (
    LOCK_KEY,
    OPEN_COUNTERS,
    OVER,
    PLACE,
    REFUSE,
    SETTLE,
    VIEW,
)
from quotas.migrations._admitting import ADMIT, RESERVE, TELL
from quotas.migrations._live_use import COUNT_MONTHS, DRIFT, REPAIR, SWEEP
from quotas.migrations._wanted import WANTED

RELEASE_REASONS = [
    ("ended", "Ended"),
    ("expired", "Expired"),
    ("gone", "Gone"),
    ("handed_over", "Handed Over"),
    ("unbound", "Unbound"),
]


def _unchecked(name: str) -> migrations.AlterField:
    """Return a reservation's foreign key without a constraint: checking it locks shared rows."""
    key: Any = models.ForeignKey(
        db_constraint=False,
        db_index=False,
        on_delete=django.db.models.deletion.PROTECT,
        related_name="reservations",
        to=f"tenants.{name}",
    )
    return migrations.AlterField("reservation", name, key)


class Migration(migrations.Migration):
    dependencies = [("quotas", "0002_limits_and_live_use"), ("metering", "0008_catalogue")]

    operations = [
        migrations.AddField(
            "reservation",
            "owner",
            models.CharField(blank=True, db_default="", default="", max_length=150),
        ),
        _unchecked("cluster"),
        _unchecked("organization"),
        _unchecked("project"),
        migrations.AlterField(
            "reservation",
            "release_reason",
            models.CharField(
                blank=True, choices=RELEASE_REASONS, db_default="", default="", max_length=16
            ),
        ),
        migrations.RunSQL(VIEW, "DROP VIEW quotas_counted;"),
        migrations.RunSQL(LOCK_KEY, "DROP FUNCTION quotas_lock_key;"),
        migrations.RunSQL(OPEN_COUNTERS, "DROP FUNCTION quotas_open_counters;"),
        migrations.RunSQL(OVER, "DROP FUNCTION quotas_over;"),
        migrations.RunSQL(SETTLE, "DROP FUNCTION quotas_settle;"),
        migrations.RunSQL(TELL, "DROP FUNCTION quotas_tell;"),
        migrations.RunSQL(RESERVE, "DROP FUNCTION quotas_reserve;"),
        migrations.RunSQL(PLACE, "DROP FUNCTION quotas_place;"),
        migrations.RunSQL(REFUSE, "DROP FUNCTION quotas_refuse;"),
        migrations.RunSQL(ADMIT, "DROP FUNCTION quotas_admit;"),
        migrations.RunSQL(WANTED, "DROP FUNCTION quotas_wanted;"),
        migrations.RunSQL(SWEEP, "DROP FUNCTION quotas_sweep;"),
        migrations.RunSQL(DRIFT, "DROP VIEW quotas_drift;"),
        migrations.RunSQL(REPAIR, "DROP FUNCTION quotas_repair;"),
        migrations.RunSQL(COUNT_MONTHS, "DROP FUNCTION quotas_count_months;"),
        # Limits that were set before there was admission; nothing is reserved or held yet.
        migrations.RunSQL(
            "SELECT quotas_open_counters(id) FROM tenants_organization ORDER BY id;",
            migrations.RunSQL.noop,
        ),
    ]
