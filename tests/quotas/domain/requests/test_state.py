"""The moves of a quota request."""

import pytest

from quotas.domain.errors import QuotaRequestDecidedError
from quotas.domain.requests.routing import OUTCOME, RequestMove, next_state
from quotas.models import RequestState


@pytest.mark.parametrize(
    ("move", "state"),
    [
        (RequestMove.APPROVE, "approved"),
        (RequestMove.REJECT, "rejected"),
        (RequestMove.CANCEL, "cancelled"),
    ],
)
def test_a_submitted_request_can_be_decided_and_deciding_it_again_stays_there(
    move: RequestMove, state: str
) -> None:
    assert next_state("submitted", move) == state
    assert next_state(state, move) == state


@pytest.mark.parametrize("move", list(RequestMove))
def test_a_decided_request_goes_nowhere_else(move: RequestMove) -> None:
    for state in set(OUTCOME.values()) - {OUTCOME[move]}:
        with pytest.raises(QuotaRequestDecidedError) as refusal:
            next_state(state, move)

        assert refusal.value.code == "quota_request_decided"
        assert refusal.value.facts == {"state": state}


def test_the_table_of_moves_and_the_table_of_rows_know_the_same_states() -> None:
    assert {*OUTCOME.values(), "submitted"} == set(RequestState.values)
