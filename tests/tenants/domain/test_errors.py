"""Tests of refusals: what each carries, and that codes are distinguished."""

import importlib
from collections import Counter

import pytest

from tenants.domain.errors import (
    ConflictError,
    DomainError,
    FieldProblem,
    InvalidInputError,
    SourceUnavailableError,
)
from tenants.domain.refusals import NamespaceBoundError, SlugTakenError


def test_a_refusal_carries_what_a_caller_needs() -> None:
    problem = FieldProblem("slug", "blank", "Name it.")

    refusal = InvalidInputError(
        "No.", field="slug", remedy="Do.", facts={"count": 1}, problems=(problem,)
    )

    assert (refusal.message, refusal.field, refusal.advice) == ("No.", "slug", "Do.")
    assert (refusal.facts, refusal.problems) == ({"count": 1}, (problem,))
    assert str(refusal) == "No."


def test_the_remedy_of_the_class_holds_unless_another_is_given() -> None:
    assert SlugTakenError("Taken.").advice == "Choose another slug."
    assert SlugTakenError("Taken.", remedy="Use b.").advice == "Use b."
    assert NamespaceBoundError("Bound.").advice == ""


def test_the_facts_of_a_refusal_do_not_change_with_the_callers() -> None:
    facts = {"count": 1}

    refusal = ConflictError("No.", facts=facts)
    facts["count"] = 2

    assert refusal.facts == {"count": 1}


def test_a_source_that_did_not_answer_names_the_cause() -> None:
    error = SourceUnavailableError("Prometheus did not answer.", reason="timeout")

    assert (str(error), error.reason) == ("Prometheus did not answer.", "timeout")
    assert not isinstance(error, DomainError)


def _refusals() -> list[type[DomainError]]:
    module = importlib.import_module("tenants.domain.refusals")
    return [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, DomainError)
        and kind.__module__ == module.__name__
    ]


def test_every_refusal_has_a_code_of_its_own() -> None:
    codes = Counter(kind.code for kind in _refusals())

    assert [code for code, count in codes.items() if count > 1] == []


@pytest.mark.parametrize("kind", _refusals(), ids=lambda kind: kind.__name__)
def test_every_refusal_says_what_to_do(kind: type[DomainError]) -> None:
    assert kind.status in {400, 401, 403, 409, 412, 413, 422, 428, 429}
    assert kind.remedy.endswith((".", "themselves.")) or kind is NamespaceBoundError
    assert kind.code == kind.code.lower()
