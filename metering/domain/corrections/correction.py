"""Corrections: what later truth adds to a sealed hour or takes from it, as whole signed deltas.

A sealed record stays as it is; the sum over its revisions is the truth now known. More usage is
accepted by the same rules as when the hour was metered. Less usage is only accepted with proof, and
never because something is no longer observed: data past a source's retention proves nothing. The
parts of a device claim are judged together: the claim is billed once, and only how it is split may
have changed.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from metering.domain.allocations.claims import allocation_key


class RecheckReason(StrEnum):
    """Why a sealed window is rechecked."""

    SCHEDULED = "scheduled"
    PERSON = "person"
    BINDING = "binding"
    CATALOGUE = "catalogue"
    DECISION = "decision"
    WATCH = "watch"


class RecheckState(StrEnum):
    """How far a recheck has come. `lapsed` came too late for the sources, `failed` never ended."""

    DUE = "due"
    CHECKING = "checking"
    DONE = "done"
    LAPSED = "lapsed"
    FAILED = "failed"


class CorrectionCause(StrEnum):
    """Why usage is corrected.

    `released` is usage that an exception held when its hour was sealed; `late_data` is other usage
    that the sources reported later. The other causes are chosen by a person.
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
        is_proof: Whether the API reported its exact end, so that even less usage is accepted.
        is_decided: Whether a person accepted this evidence, likewise.
        jitter_unit_seconds: An increase up to this is ignored, because its end is still only
            estimated.
    """

    unit_seconds: int
    is_proof: bool = False
    is_decided: bool = False
    jitter_unit_seconds: int = 0


@dataclass(frozen=True)
class Held:
    """What the ledger holds of the same.

    Attributes:
        metered_unit_seconds: What sources reported, over all revisions.
        is_exact: Whether the newest of them had an exact end.
        is_settled_by_person: Whether a person corrected it; no source overrides that.
    """

    metered_unit_seconds: int
    is_exact: bool = False
    is_settled_by_person: bool = False


@dataclass(frozen=True)
class UsageDifference:
    """A delta between what is known and what is held; never 0.

    Attributes:
        wants_person: Whether it is only proposed.
    """

    key: UsageKey
    unit_seconds: int
    wants_person: bool


@dataclass(frozen=True)
class RecheckComparison:
    """What a recheck found, by key.

    Attributes:
        unproven_unit_seconds: How much less is known now without proof; it has no effect.
        unseen: Keys in the ledger that no source reports any more; they have no effect.
    """

    differences: tuple[UsageDifference, ...]
    unproven_unit_seconds: int
    unseen: int


@dataclass(frozen=True)
class _UsagePart:
    """A pod's resource, or one part of a claim, as it is known now and as it is held."""

    key: UsageKey
    now: Known
    before: Held

    @property
    def delta(self) -> int:
        return self.now.unit_seconds - self.before.metered_unit_seconds


def compare(known: Mapping[UsageKey, Known], held: Mapping[UsageKey, Held]) -> RecheckComparison:
    """Return what the ledger lacks and what it has too much of, allocation by allocation.

    Of a claim that is known, a part that is held and not known any more has become others'. What
    moves from part to part takes nothing from anybody's hardware and needs no proof; whether all
    parts together are more or less is judged as it is judged of a pod.
    """
    found: list[UsageDifference] = []
    unproven = unseen = 0
    for keys in keys_by_allocation([*known, *(key for key in held if key not in known)]):
        parts = [_UsagePart(key, known.get(key, Known(0)), held.get(key, Held(0))) for key in keys]
        net = sum(part.delta for part in parts)
        if not any(key in known for key in keys):
            unseen += len(keys)
        elif net < 0 and not _is_proven(parts):
            unproven -= net
        elif not _is_jitter(parts):
            wants_person = net < 0 or any(part.before.is_settled_by_person for part in parts)
            found += [
                UsageDifference(part.key, part.delta, wants_person=wants_person)
                for part in parts
                if part.delta
            ]
    return RecheckComparison(
        differences=tuple(found), unproven_unit_seconds=unproven, unseen=unseen
    )


def keys_by_allocation(keys: Iterable[UsageKey]) -> list[list[UsageKey]]:
    """Return keys with those of one allocation together: a pod's alone, a claim's parts as one."""
    grouped: dict[UsageKey, list[UsageKey]] = defaultdict(list)
    for uid, resource in sorted(keys):
        grouped[allocation_key(uid=uid, resource=resource)].append((uid, resource))
    return list(grouped.values())


def _is_jitter(parts: Sequence[_UsagePart]) -> bool:
    """Whether a small increase of a record is jitter; a claim's parts do not jitter."""
    first = parts[0]
    if len(parts) > 1 or not first.before.metered_unit_seconds:
        return False
    return 0 < first.delta <= first.now.jitter_unit_seconds


def _is_proven(parts: Sequence[_UsagePart]) -> bool:
    """Whether a decrease is accepted; parts that a claim never had do not prove its end."""
    had = [part.before for part in parts if part.before.metered_unit_seconds]
    if any(part.now.is_decided for part in parts):
        return True
    return any(part.now.is_proof for part in parts) and not all(held.is_exact for held in had)


def stays_above_zero(lines: Sequence[Mapping[str, Any]]) -> bool:
    """Whether every line leaves its key at 0 or more; a line has its `basis` and its delta."""
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


@dataclass(frozen=True)
class DisputedUsage:
    """What exceptions hold, or held, of one pod's one resource in one hour.

    Attributes:
        is_disputed: Whether two sources differ about it and no decision was made.
        left_off_unit_seconds: What a person resolved to leave off the bill, with a reason.
    """

    is_disputed: bool = False
    left_off_unit_seconds: int = 0


NOTHING_HELD = DisputedUsage()


@dataclass(frozen=True)
class Release:
    """What becomes of one difference.

    Attributes:
        unit_seconds: What is corrected; 0 for nothing.
        wants_person: Whether it is only proposed.
    """

    unit_seconds: int
    wants_person: bool


def release_of(
    unit_seconds: int, *, holding: DisputedUsage, is_vouched_for: bool, wants_person: bool
) -> Release:
    """Return how a difference is applied to what exceptions hold.

    A dispute does not end because one source is silent: an increase is accepted only when both
    sources report the pod, or a person has decided. What a person left off the bill is never billed
    automatically; only the excess is proposed.

    Args:
        unit_seconds: The difference; a negative one is not held back.
        holding: What exceptions hold of it.
        is_vouched_for: Whether both sources report it now, or a person decided about it.
        wants_person: Whether it needs approval in any case.
    """
    if unit_seconds <= 0:
        return Release(unit_seconds, wants_person)
    if holding.is_disputed and not is_vouched_for:
        return Release(0, wants_person)
    if holding.left_off_unit_seconds:
        return Release(max(0, unit_seconds - holding.left_off_unit_seconds), wants_person=True)
    return Release(unit_seconds, wants_person)
