"""The shape of plans: joins over many rows are hash joins, whatever the planner estimates.

Fresh tables have no statistics, and rows of a CTE are always estimated as few; the planner then
takes nested loops over hundreds of thousands of rows, 50 times slower. See docs/adr.
"""

from django.db import connection


def prefer_hash_joins() -> None:
    """Rule nested loops and merge joins out, where they can be, until the transaction ends.

    Raises:
        RuntimeError: Called outside a transaction, where it would outlast its purpose.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("Plans are settled for one transaction.")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('enable_nestloop', 'off', true),"
            " set_config('enable_mergejoin', 'off', true)"
        )
