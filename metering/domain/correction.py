"""Corrections: what later truth adds to a sealed hour or takes from it, as whole signed deltas.

A sealed record stays as it is; the sum over its revisions is the truth now known. More use is
believed as it was when the hour was metered. Less use is only believed with a proof, and never
because something is no longer seen: what a source forgot says nothing.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class RecheckReason(StrEnum):
    """Why a sealed window is looked at again."""

    SCHEDULED = "scheduled"
    PERSON = "person"
    BINDING = "binding"
    CATALOGUE = "catalogue"
    DECISION = "decision"


class RecheckState(StrEnum):
    """How far a recheck has come. `lapsed` came too late for the sources, `failed` never ended."""

    DUE = "due"
    CHECKING = "checking"
    DONE = "done"
    LAPSED = "lapsed"
    FAILED = "failed"


class CorrectionCause(StrEnum):
    """Why usage is corrected.

    `released` is use that an exception held when its hour was sealed; `late_data` any other that
    the sources told later. The others are a person's.
    """

    LATE_DATA = "late_data"
    RELEASED = "released"
    MANUAL = "manual"
    RETRACTION = "retraction"


class CorrectionState(StrEnum):
    """Whether its records are in the ledger."""

    PROPOSED = "proposed"
    POSTED = "posted"
    REJECTED = "rejected"


CAUSES_OF_PERSONS: Final = frozenset({CorrectionCause.MANUAL, CorrectionCause.RETRACTION})

UsageKey = tuple[str, str]
"""Pod uid and resource in Kubernetes' spelling."""


@dataclass(frozen=True)
class Known:
    """What is known now of one pod's one resource in one hour.

    Attributes:
        is_proof: Whether the API told its end exactly, so that even less use is believed.
        is_decided: Whether a person accepted this evidence, likewise.
    """

    unit_seconds: int
    is_proof: bool = False
    is_decided: bool = False


@dataclass(frozen=True)
class Held:
    """What the ledger holds of the same.

    Attributes:
        metered_unit_seconds: What sources told, over all revisions.
        is_exact: Whether the newest of them had an exact end.
        is_settled_by_person: Whether a person corrected it, which no source overrules.
    """

    metered_unit_seconds: int
    is_exact: bool = False
    is_settled_by_person: bool = False


@dataclass(frozen=True)
class Difference:
    """A delta between what is known and what is held; never 0.

    Attributes:
        wants_person: Whether it is only proposed.
    """

    key: UsageKey
    unit_seconds: int
    wants_person: bool


@dataclass(frozen=True)
class Comparison:
    """What a recheck found, by key.

    Attributes:
        unproven_unit_seconds: How much less is known now without a proof; nothing follows of it.
        unseen: Keys the ledger holds and nobody tells of any more; nothing follows of it.
    """

    differences: tuple[Difference, ...]
    unproven_unit_seconds: int
    unseen: int


def compare(known: Mapping[UsageKey, Known], held: Mapping[UsageKey, Held]) -> Comparison:
    """Return what the ledger lacks and what it has too much of, by key."""
    found, unproven = [], 0
    for key in sorted(known):
        now, before = known[key], held.get(key, Held(0))
        delta = now.unit_seconds - before.metered_unit_seconds
        is_proven = now.is_decided or (now.is_proof and not before.is_exact)
        if delta < 0 and not is_proven:
            unproven -= delta
        elif delta:
            wants_person = delta < 0 or before.is_settled_by_person
            found.append(Difference(key, delta, wants_person=wants_person))
    return Comparison(
        differences=tuple(found),
        unproven_unit_seconds=unproven,
        unseen=len(held.keys() - known.keys()),
    )


def stays_above_zero(lines: Sequence[Mapping[str, Any]]) -> bool:
    """Whether every line leaves its key at 0 or more; a line tells its `basis` and its delta."""
    return all(line["basis"] + line["unit_seconds"] >= 0 for line in lines)


def digest_of_lines(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the SHA-256 of a correction's lines in their one spelling, 64 hexadecimal digits.

    Args:
        lines: JSON values; times as ISO 8601 text, fractions as text.
    """
    spelled = json.dumps(
        list(lines), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return hashlib.sha256(spelled.encode()).hexdigest()
