"""Match conditions: CEL expressions that say whether a webhook is asked at all.

The server itself does not know CEL. Whoever starts it may bring a compiler; without one a webhook
with conditions is refused.
Source: kubernetes/apiserver, pkg/admission/plugin/webhook/matchconditions/matcher.go.
"""

from collections.abc import Callable, Iterator
from typing import Final

from simulator.kubernetes_api.errors import JSON, forbidden, invalid
from simulator.kubernetes_api.kinds import FORBIDDEN, INVALID, Cause
from simulator.kubernetes_api.resources import (
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from simulator.kubernetes_api.reviews import Review

Program = Callable[[JSON], bool]
"""Answers for `object`, `oldObject` and `request`; raises ValueError where it has no answer."""
Compile = Callable[[str], Program]
"""Returns the program of an expression; raises ValueError for one that is none, or no condition."""
UNKNOWN: Final = "Forbidden: CEL is not simulated"


def check_conditions(compile_condition: Compile | None, resource: Resource, obj: JSON) -> None:
    """Refuse a webhook configuration whose conditions cannot be asked.

    Raises:
        StatusError: 422 with every cause.
    """
    if resource not in {MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS}:
        return
    causes = list(_causes(compile_condition, obj))
    if causes:
        raise invalid(resource.qualified_kind, obj["metadata"].get("name", ""), causes)


def _causes(compile_condition: Compile | None, configuration: JSON) -> Iterator[Cause]:
    for index, webhook in enumerate(configuration.get("webhooks") or []):
        field = f"webhooks[{index}].matchConditions"
        for number, condition in enumerate(webhook.get("matchConditions") or []):
            if compile_condition is None:
                yield FORBIDDEN, UNKNOWN, field
                continue
            expression = condition.get("expression", "")
            try:
                compile_condition(expression)
            except ValueError as error:
                told = f'Invalid value: "{expression}": {error}'
                yield INVALID, told, f"{field}[{number}].expression"


def conditions_hold(compile_condition: Compile | None, webhook: JSON, review: Review) -> bool:
    """Whether every condition of a webhook holds; one that does not outweighs one that fails.

    Raises:
        StatusError: 403 for a condition that has no answer, where the webhook must not fail.
    """
    conditions = webhook.get("matchConditions") or []
    if not conditions:
        return True
    request = review.request("")
    variables = {
        "object": request["object"],
        "oldObject": request["oldObject"],
        "request": {key: value for key, value in request.items() if not key.endswith("bject")},
    }
    failure = ""
    for condition in conditions:
        expression = condition["expression"]
        try:
            if not _answer(compile_condition, expression, variables):
                return False
        except ValueError as error:
            failure = failure or f"expression '{expression}' resulted in error: {error}"
    if failure and webhook.get("failurePolicy", "Fail") == "Fail":
        raise forbidden(review.resource.qualified, review.name, failure)
    return not failure


def _answer(compile_condition: Compile | None, expression: str, variables: JSON) -> bool:
    if compile_condition is None:
        raise ValueError(UNKNOWN)
    return compile_condition(expression)(variables)
