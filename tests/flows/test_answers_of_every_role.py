"""Every GET of the API, by every role: status, media type and body are as described."""

import pytest
from rest_framework.test import APIClient

from tests.support.description import problems
from tests.support.flows.estate import Estate
from tests.support.flows.operations import operations, send
from tests.support.flows.reach import CALLERS, PUBLIC
from tests.support.sampling import soaked
from tests.support.tenants.clients import api_client

pytestmark = pytest.mark.usefixtures("unlogged")
WITHOUT_ANSWER = {"GET invoices/pk/e-invoice/", "GET invoices/pk/usage-annex/"}
"""The estate's invoice is a draft, which has neither."""


@pytest.mark.parametrize("names", [("frank", "bob"), soaked((CALLERS,))])
def test_every_answer_to_every_role_is_what_the_description_says(
    estate: Estate, names: tuple[str, ...]
) -> None:
    clients = {
        name: api_client(estate.robot if name == "robot" else getattr(estate.cast, name))
        for name in names
    }
    calls = [(name, client, "own") for name, client in clients.items()]
    calls += [("nobody", APIClient(), "own"), ("frank", clients["frank"], "nonexistent")]
    asked = [one for one in operations() if one.startswith("GET ") and one not in PUBLIC]

    seen, wrong = set(), []
    for operation in asked:
        for name, client, place in calls:
            answer = send(client, operation, estate.places[place])
            seen.add((operation, answer.status_code))
            wrong += [f"{name}: {text}" for text in problems(operation, answer)]

    assert not wrong, "\n" + "\n".join(dict.fromkeys(wrong))
    answered = {operation for operation, status in seen if status == 200}
    assert answered == set(asked) - WITHOUT_ANSWER
