"""Turns whose connection is ended by the server: counted over a new one."""

import pytest
from django.db import connection, transaction
from structlog.testing import capture_logs

from tenants.models import SweepCrash
from tenants.services.turns import for_each_isolated
from tests.support.builders import AT, make_organization

EVENT = "tests.things.crashed"
END_OWN_BACKEND = "SELECT pg_terminate_backend(pg_backend_pid())"


@pytest.mark.usefixtures("committed_db")
@pytest.mark.parametrize("in_transaction", [False, True])
def test_whose_connection_is_ended_is_counted_and_the_others_have_their_turn(
    in_transaction: bool,  # noqa: FBT001 - A parameter of the test.
) -> None:
    def end_connection() -> int:
        with connection.cursor() as cursor:
            cursor.execute(END_OWN_BACKEND)
        return 1

    def call(key: str) -> int:
        if key == "umbrella":
            return make_organization(key).version
        return transaction.atomic(end_connection)() if in_transaction else end_connection()

    with capture_logs() as lines:
        done = for_each_isolated(["acme", "umbrella"], call, event=EVENT, at=AT)

    assert done == 1
    assert [(line["event"], line["key"]) for line in lines] == [(EVENT, "acme")]
    row = SweepCrash.objects.get()
    assert (row.event, row.count, row.last_key) == (EVENT, 1, "acme")
    assert row.last_error == "OperationalError"
