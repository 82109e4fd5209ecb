from django.db import migrations

MOVE = "FUNCTION metering_move_capacity()"


class Migration(migrations.Migration):
    dependencies = [("metering", "0019_capacity_moves_with_postings")]

    # A function runs for PUBLIC unless it is taken away: with that right any role can make it the
    # trigger of a temporary table of its own, and it would run as the owner on rows of that table.
    operations = [
        migrations.RunSQL(
            f"REVOKE EXECUTE ON {MOVE} FROM PUBLIC;", f"GRANT EXECUTE ON {MOVE} TO PUBLIC;"
        ),
    ]
