from django.db import migrations, models

from quotas.migrations._admission import OPEN_COUNTERS
from quotas.migrations._live_use import SWEEP
from quotas.migrations._wanted import TURNS, WANTED, WANTED_OF

SIZES = [("small", "Small"), ("medium", "Medium"), ("large", "Large")]
RELEASE_REASONS = [
    ("ended", "Ended"),
    ("expired", "Expired"),
    ("gone", "Gone"),
    ("handed_over", "Handed Over"),
    ("unbound", "Unbound"),
    ("unsized", "Unsized"),
]


def _made_anew(*signatures: str, sql: str) -> migrations.RunSQL:
    """Return a function as it is now. What made it first makes it so too, so nothing is undone."""
    dropped = "".join(f"DROP FUNCTION IF EXISTS {signature};\n" for signature in signatures)
    return migrations.RunSQL(dropped + sql, migrations.RunSQL.noop)


class Migration(migrations.Migration):
    dependencies = [("quotas", "0009_limits")]

    operations = [
        migrations.AlterField(
            "reservation",
            "size",
            models.CharField(blank=True, choices=SIZES, max_length=16),
        ),
        migrations.AlterField(
            "reservation",
            "release_reason",
            models.CharField(
                blank=True, choices=RELEASE_REASONS, db_default="", default="", max_length=16
            ),
        ),
        _made_anew("quotas_open_counters(uuid)", sql=OPEN_COUNTERS),
        _made_anew("quotas_wanted(timestamptz, text[])", sql=WANTED),
        _made_anew(
            "quotas_sweep(timestamptz, text[])",
            "quotas_sweep(timestamptz, text[], jsonb)",
            sql=SWEEP,
        ),
        migrations.RunSQL(WANTED_OF, "DROP FUNCTION quotas_wanted_of;"),
        migrations.RunSQL(TURNS, "DROP FUNCTION quotas_turns;"),
    ]
