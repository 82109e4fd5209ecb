"""The webhook through a pooler: a shared statement, and a ledger that answers too late.

Tests that give a new connection a tenth of a second stay out: a pooler first makes one of its own.
"""

from tests.quotas.conftest import *  # noqa: F403 - Its tests run here again.
from tests.quotas.webhook.conftest import *  # noqa: F403 - Its tests run here again.
from tests.quotas.webhook.conftest import _nothing_is_remembered  # noqa: F401 - It runs by itself.
from tests.quotas.webhook.test_late_answers import *  # noqa: F403 - Its tests run here again.
from tests.quotas.webhook.test_together import (  # noqa: F401 - As above.
    place,
    statements,
    test_a_connection_that_was_ended_is_replaced,
    test_counters_that_somebody_holds_are_waited_for_by_each_alone,
    test_every_pod_is_let_in_and_counted_once,
    test_limits_that_fill_up_are_filled_to_the_last_unit,
    test_no_statement_is_prepared_and_no_limit_stays,
    test_of_64_for_the_last_unit_exactly_one_is_let_in,
    test_one_pod_that_is_asked_by_many_counts_once,
    test_two_processes_let_in_no_pod_twice,
)
