"""What an exception holds back, said so that nobody takes for GPU hours what is none."""

from collections.abc import Mapping
from typing import Any, Final

from metering.domain.catalogue import UnsizedCause
from metering.domain.words import unit_hours_words

NOTHING_HELD: Final = "nothing"


def held_words(held_unit_seconds: int, *, details: Mapping[str, Any]) -> str:
    """Return what one exception holds, such as "12.50 unit-hours".

    A resource that no rule knows has units of its own: 50 of a percentage for an hour are not 50
    hours of a GPU. It is said as it was asked for.

    Args:
        held_unit_seconds: Units x seconds that are not billed.
        details: The exception's; cause and units are read.
    """
    if not held_unit_seconds:
        return NOTHING_HELD
    units = details.get("units")
    if details.get("cause") != UnsizedCause.UNKNOWN_RESOURCE or not isinstance(units, int):
        return f"{unit_hours_words(held_unit_seconds)} unit-hours"
    hours = unit_hours_words(held_unit_seconds // max(units, 1))
    return f"{units:,} for {hours} h, not in GPUs"


def held_part_words(*, size: str, unit_seconds: int) -> str:
    """Return what many alike exceptions hold of one size, such as "Large 12.50".

    Args:
        size: small, medium, large; "" while no rule gives one.
        unit_seconds: Units x seconds that are not billed.
    """
    return f"{size.capitalize() or 'Size unknown'} {unit_hours_words(unit_seconds)}"


def held_pods_words(pod_seconds: int) -> str:
    """Return for how long pods held what is no GPU, such as "1,244.96 h of pods, not in GPUs"."""
    return f"{unit_hours_words(pod_seconds)} h of pods, not in GPUs"
