"""Requests made up from the committed description: each gets an answer that it describes."""

import json
import re
from itertools import islice
from typing import Any, Final
from urllib.parse import urlencode

import pytest
import schemathesis
from django.db import transaction
from django.http import HttpResponse
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from rest_framework.test import APIClient
from schemathesis import Case, GenerationMode
from schemathesis.core import NotSet

from tests.support.description import PREFIX, description, problems
from tests.support.flows.estate import Estate
from tests.support.sampling import soaked
from tests.support.tenants.clients import api_client

pytestmark = pytest.mark.usefixtures("unlogged")
EXAMPLES: Final = 6
"""Of each operation; half of them break its schema."""
SAMPLED: Final = 24
"""One of so many operations is enough for a change of what all of them share."""


def answered(client: APIClient, case: Case[Any], place: dict[str, Any]) -> HttpResponse:
    """Send a request about an object that is there; what it did is undone."""
    noun = case.path.removeprefix(PREFIX).split("/")[0]
    path = re.sub(r"{[^}]*}", str(place.get(noun, "unknown")), case.path)
    query = urlencode(dict(case.query or {}), doseq=True, errors="surrogatepass")
    sent: Any = case.body
    if not isinstance(sent, bytes):
        sent = b"" if isinstance(sent, NotSet) else json.dumps(sent).encode()
    headers = {name: str(text) for name, text in (case.headers or {}).items()}
    headers.pop("Authorization", None)
    before = transaction.savepoint()
    answer: HttpResponse = client.generic(
        case.method, f"{path}?{query}", sent, "application/json", headers=headers
    )
    transaction.savepoint_rollback(before)
    return answer


@pytest.mark.parametrize("every", [SAMPLED, soaked(1)])
def test_no_request_gets_an_answer_that_is_not_described(estate: Estate, every: int) -> None:
    client = api_client(estate.cast.frank)
    client.raise_request_exception = False
    wrong: dict[str, str] = {}
    bounded = settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    def judge(case: Case[Any]) -> None:
        answer = answered(client, case, estate.places["own"])
        path = re.sub(r"{[^}]*}", "pk", case.path.removeprefix(PREFIX))
        for problem in problems(f"{case.method.upper()} {path}", answer):
            wrong.setdefault(problem, f"{case.query} {case.body!r}"[:400])

    found: Any
    every_operation = schemathesis.openapi.from_dict(description()).get_all_operations()
    for found in islice(every_operation, 0, None, every):
        operation = found.ok()
        modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
        cases = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in modes))
        bounded(given(case=cases)(judge))()

    assert not wrong, "\n" + "\n".join(f"{problem}: {how}" for problem, how in wrong.items())
