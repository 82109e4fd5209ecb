"""Releasing: how much of what is known later may go into the ledger without a person."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Holding:
    """What exceptions hold, or held, of one pod's one resource in one hour.

    Attributes:
        is_disputed: Whether two sources differ about it and nobody has decided yet.
        left_off_unit_seconds: What a person resolved to leave off the bill, with a reason.
    """

    is_disputed: bool = False
    left_off_unit_seconds: int = 0


NOTHING_HELD = Holding()


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
    unit_seconds: int, *, holding: Holding, is_vouched_for: bool, wants_person: bool
) -> Release:
    """Return what becomes of a difference to what is held.

    A dispute is no nearer its end because one of its two sources has fallen silent: more is only
    believed of it when both tell of the pod, or when a person has decided. What a person left off
    the bill no machine bills; only what goes beyond it is proposed.

    Args:
        unit_seconds: The difference; less than what is held is nobody's to hold back.
        holding: What exceptions hold of it.
        is_vouched_for: Whether both sources tell of it now, or a person decided about it.
        wants_person: Whether it would only be proposed anyway.
    """
    if unit_seconds <= 0:
        return Release(unit_seconds, wants_person)
    if holding.is_disputed and not is_vouched_for:
        return Release(0, wants_person)
    if holding.left_off_unit_seconds:
        return Release(max(0, unit_seconds - holding.left_off_unit_seconds), wants_person=True)
    return Release(unit_seconds, wants_person)
