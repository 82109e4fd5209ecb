"""Price groups: whose device share a price names, and whether what used it was preemptible.

A group is "<MODEL>/<shape>", as the catalogue spells it, such as "H100/whole". What pods hold whose
PriorityClass is preemptible ends in "/burst": it is priced apart, and counted against burst.
"""

from collections.abc import Collection
from typing import Final

BURST_ENDING: Final = "/burst"


def group_of(price_group: str, *, priority_class: str, burst_classes: Collection[str]) -> str:
    """Return the group of what a pod holds.

    Args:
        price_group: Of the device share; "" stays "".
        priority_class: The pod's, "" without one.
        burst_classes: Those that are preemptible.
    """
    return (
        f"{price_group}{BURST_ENDING}"
        if price_group and priority_class in burst_classes
        else price_group
    )


def is_burst(price_group: str) -> bool:
    """Whether what was used could be taken away at any time."""
    return price_group.endswith(BURST_ENDING)


def without_burst(price_group: str) -> str:
    """Return the device share alone."""
    return price_group.removesuffix(BURST_ENDING)


def like(price_group: str, *, other: str) -> str:
    """Return another device share, as preemptible as the first."""
    return f"{other}{BURST_ENDING}" if is_burst(price_group) else other
