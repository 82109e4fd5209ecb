"""Editing the catalogue: parsing proposed rules, and computing what they would change.

A version is never changed. An edit proposes the rules of the next version. Rows in the ledger keep
their size, so the change affects only later pods and hardware that no rule has matched so far.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from metering.domain.catalogue.claimed_devices import PRODUCT_ATTRIBUTE, size_of_held
from metering.domain.catalogue.sizing import (
    Catalogue,
    Rule,
    Sized,
    Unsized,
    rule_from_json,
    rule_to_json,
)
from metering.domain.catalogue.units import GPUSize
from metering.domain.corrections.exceptions import unsized_sentence
from tenants.domain.errors import FieldProblem

RULES_MAX: Final = 500
PATTERNS_MAX: Final = 100
PATTERN_LENGTH_MAX: Final = 200
REPLICAS_MAX: Final = 10_000
SHARINGS: Final = frozenset({"time-slicing", "mps", "none"})
STRATEGIES: Final = ("", "single", "mixed")
_EXAMPLE: Final = rule_to_json(Rule(size=None, resources=("*",)))
_TEXT_LISTS: Final = tuple(name for name, value in _EXAMPLE.items() if isinstance(value, list))


@dataclass(frozen=True)
class SeenHardware:
    """One kind of hardware that pods held or requested, with how much of it.

    Attributes:
        labels: The node labels that settle it.
        size: What the ledger calls it; "" when no rule knew it.
        open_units: Units held now.
        unit_seconds: Units x seconds used of it in the queried time.
    """

    resource: str
    labels: Mapping[str, str]
    size: str
    price_group: str
    open_units: int
    unit_seconds: int


@dataclass(frozen=True)
class SizingDifference:
    """What one kind of hardware is called now, and would be called by the proposed rules.

    `before` and `after` are "size price_group", or the sentence why it has no size.
    """

    resource: str
    product: str
    before: str
    after: str
    is_refused: bool
    open_units: int
    unit_seconds: int


def read_rules(proposed: object) -> tuple[tuple[Rule, ...], tuple[FieldProblem, ...]]:
    """Return the rules in proposed JSON, and every problem with them; rules only without one.

    Args:
        proposed: What came in: a list of rules as the catalogue stores them. Conditions that are
            left out hold for everything.
    """
    if not isinstance(proposed, list) or not 1 <= len(proposed) <= RULES_MAX:
        return (), (_problem("rules", f"Give a list of 1 to {RULES_MAX} rules."),)
    problems = tuple(
        problem
        for index, item in enumerate(proposed)
        for problem in _rule_problems(f"rules[{index}]", item)
    )
    if problems:
        return (), problems
    return tuple(rule_from_json({**_EXAMPLE, **item}) for item in proposed), ()


def differences(
    before: Catalogue, after: Catalogue, *, seen: Iterable[SeenHardware]
) -> tuple[SizingDifference, ...]:
    """Return what would be called otherwise, most used first.

    Args:
        before: The version in force.
        after: The proposed one.
        seen: Every kind of hardware that pods held.
    """
    found = (_difference(before, after, hardware=hardware) for hardware in seen)
    changed = (one for one in found if one.before != one.after)
    return tuple(sorted(changed, key=lambda one: (-one.unit_seconds, one.resource, one.product)))


def _difference(before: Catalogue, after: Catalogue, *, hardware: SeenHardware) -> SizingDifference:
    now = size_of_held(before, resource=hardware.resource, labels=hardware.labels)
    then = size_of_held(after, resource=hardware.resource, labels=hardware.labels)
    return SizingDifference(
        resource=hardware.resource,
        product=_product(hardware.labels),
        before=_text(now),
        after=_text(then),
        is_refused=isinstance(then, Unsized),
        open_units=hardware.open_units,
        unit_seconds=hardware.unit_seconds,
    )


def _text(found: Sized | Unsized) -> str:
    if isinstance(found, Unsized):
        return unsized_sentence(found.cause)
    return f"{found.size.value} {found.price_group}"


def _product(labels: Mapping[str, str]) -> str:
    named = (text for key, text in sorted(labels.items()) if key.endswith("gpu_product"))
    raw = (text for key, text in sorted(labels.items()) if key.endswith("gpu.product"))
    return next(named, "") or next(raw, "") or labels.get(PRODUCT_ATTRIBUTE, "")


def _rule_problems(place: str, item: object) -> Iterable[FieldProblem]:
    if not isinstance(item, dict):
        yield _problem(place, "A rule is an object.")
        return
    for name in sorted(set(item) - set(_EXAMPLE)):
        yield _problem(f"{place}.{name}", f"Use only {', '.join(sorted(_EXAMPLE))}.")
    yield from _size_problems(place, item)
    if not item.get("resources"):
        yield _problem(f"{place}.resources", "Name at least one resource pattern.")
    for name in _TEXT_LISTS:
        yield from _list_problems(f"{place}.{name}", item.get(name, []))
    yield from _condition_problems(place, item)


def _size_problems(place: str, item: Mapping[str, Any]) -> Iterable[FieldProblem]:
    sizes = [size.value for size in GPUSize]
    if "size" not in item:
        yield _problem(f"{place}.size", f"Give {', '.join(sizes)}, or null to refuse.")
    elif item["size"] is not None and item["size"] not in sizes:
        yield _problem(f"{place}.size", f"Use {', '.join(sizes)}, or null to refuse.")


def _list_problems(place: str, value: object) -> Iterable[FieldProblem]:
    if not isinstance(value, list) or len(value) > PATTERNS_MAX:
        yield _problem(place, f"Give a list of at most {PATTERNS_MAX} texts.")
        return
    for index, text in enumerate(value):
        if not _is_pattern(text):
            yield _problem(
                f"{place}[{index}]", f"Give a text of 1 to {PATTERN_LENGTH_MAX} printable letters."
            )


def _is_pattern(text: object) -> bool:
    return isinstance(text, str) and text.isprintable() and 1 <= len(text) <= PATTERN_LENGTH_MAX


def _condition_problems(place: str, item: Mapping[str, Any]) -> Iterable[FieldProblem]:
    if item.get("mig_strategy", "") not in STRATEGIES:
        yield _problem(f"{place}.mig_strategy", 'Use "single", "mixed", or "" for any.')
    sharing = item.get("sharing", [])
    if isinstance(sharing, list) and not _are_all(sharing, SHARINGS):
        yield _problem(f"{place}.sharing", f"Use only {', '.join(sorted(SHARINGS))}.")
    replicas = item.get("replicas_min", 0)
    if type(replicas) is not int or not 0 <= replicas <= REPLICAS_MAX:
        yield _problem(f"{place}.replicas_min", f"Give a whole number from 0 to {REPLICAS_MAX}.")


def _are_all(values: Sequence[object], allowed: frozenset[str]) -> bool:
    return all(isinstance(value, str) and value in allowed for value in values)


def _problem(field: str, message: str) -> FieldProblem:
    return FieldProblem(field=field, code="catalogue_rule_invalid", message=message)
