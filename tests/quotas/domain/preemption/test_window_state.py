"""Where a protected window stands at a time."""

from datetime import datetime, timedelta

import pytest

from quotas.domain.preemption.states import window_state
from tests.support.builders import AT

SECOND = timedelta(seconds=1)
VALID = (AT, AT + timedelta(hours=1))


@pytest.mark.parametrize(
    ("at", "state"),
    [
        (AT - SECOND, "coming"),
        (AT, "in_force"),
        (AT + timedelta(hours=1) - SECOND, "in_force"),
        (AT + timedelta(hours=1), "over"),
    ],
)
def test_a_window_holds_from_its_begin_up_to_its_end(at: datetime, state: str) -> None:
    assert window_state(*VALID, None, at=at).value == state
    assert window_state(*VALID, AT - SECOND, at=at).value == "cancelled"


def test_one_whose_times_were_not_kept_was_cancelled() -> None:
    assert window_state(None, None, None, at=AT).value == "cancelled"
