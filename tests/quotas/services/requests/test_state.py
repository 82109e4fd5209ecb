"""The moves of a quota request."""

import pytest

from quotas.domain.errors import QuotaRequestDecidedError
from quotas.domain.requests.routing import OUTCOME, RequestMove
from quotas.models import QuotaRequest, RequestState
from quotas.services.requests.deciding import moves


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
    assert moves(QuotaRequest(state="submitted"), move)
    assert not moves(QuotaRequest(state=state), move)
    assert OUTCOME[move] == state


@pytest.mark.parametrize("move", list(RequestMove))
def test_a_decided_request_goes_nowhere_else(move: RequestMove) -> None:
    for state in set(OUTCOME.values()) - {OUTCOME[move]}:
        with pytest.raises(QuotaRequestDecidedError) as refusal:
            moves(QuotaRequest(state=state), move)

        assert refusal.value.code == "quota_request_decided"
        assert refusal.value.facts == {"state": state}


def test_the_table_of_moves_and_the_table_of_rows_know_the_same_states() -> None:
    assert {*OUTCOME.values(), "submitted"} == set(RequestState.values)
