"""What a refusal says when it is read back: figures only to who may read the limit."""

from collections.abc import Collection

import pytest

from quotas.domain.admission.denials import SCOPES, WITHOUT_FIGURES, visible_refusal
from quotas.domain.admission.values import VerdictCode

ACME = "organization acme: 6 of 6 large held, 0 reserved, 1 asked."
LLM = "project llm: 4 of 8 large held, 4 reserved, 1 asked."
BOB = "user bob@acme.example: 1 of 1 large held, 0 reserved, 1 asked."
ORGANIZATION = frozenset({"organization"})


@pytest.mark.parametrize("message", [ACME, LLM, BOB])
def test_who_may_read_every_limit_is_reported_every_number(message: str) -> None:
    assert visible_refusal(message, code="limit_reached", hidden_scopes=frozenset()) == message


@pytest.mark.parametrize(
    ("message", "code", "hidden", "expected"),
    [
        (ACME, "limit_reached", ORGANIZATION, "organization acme has no room left for as many."),
        (ACME, "nothing_granted", ORGANIZATION, "organization acme grants none of this size."),
        (
            ACME,
            "allowance_used",
            ORGANIZATION,
            "organization acme has used its unit-hours of this month.",
        ),
        (LLM, "limit_reached", SCOPES, "project llm has no room left for as many."),
        (BOB, "limit_reached", SCOPES, "user bob@acme.example has no room left for as many."),
        ("6 of 6 held.", "limit_reached", ORGANIZATION, "a limit has no room left for as many."),
    ],
)
def test_a_limit_that_is_hidden_is_named_without_its_numbers(
    message: str, code: str, hidden: Collection[str], expected: str
) -> None:
    assert visible_refusal(message, code=code, hidden_scopes=hidden) == expected


@pytest.mark.parametrize("message", [LLM, BOB])
def test_limits_below_a_hidden_one_are_reported(message: str) -> None:
    assert visible_refusal(message, code="limit_reached", hidden_scopes=ORGANIZATION) == message


@pytest.mark.parametrize("code", ["suspended", "namespace_unbound", "hidden_gpus"])
def test_what_no_limit_refused_says_what_it_said(code: str) -> None:
    reason = "organization acme: 3 invoices are open."

    assert visible_refusal(reason, code=code, hidden_scopes=SCOPES) == reason


def test_a_refusal_without_words_stays_without() -> None:
    assert visible_refusal("", code="limit_reached", hidden_scopes=SCOPES) == ""


def test_every_code_with_a_limit_to_blame_has_words_without_figures() -> None:
    assert set(WITHOUT_FIGURES) == {
        VerdictCode.LIMIT_REACHED,
        VerdictCode.NOTHING_GRANTED,
        VerdictCode.ALLOWANCE_USED,
    }
