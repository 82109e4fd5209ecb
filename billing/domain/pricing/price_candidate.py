"""Why a price applies to a use, or why it does not."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from billing.domain.pricing.price_book import ANY_TIME


class PriceOutcome(StrEnum):
    """What became of a price that was considered."""

    APPLIES = "applies"
    LESS_SPECIFIC = "less_specific"
    BASE_OVERRIDDEN = "base_overridden"
    NOT_IN_FORCE = "not_in_force"
    SUPERSEDED = "superseded"
    OTHER_CLUSTER = "other_cluster"
    OTHER_BAND = "other_band"
    BAND_UNKNOWN = "band_unknown"


@dataclass(frozen=True)
class ConsideredPrice:
    """A price of the book or of its base, of a key that may apply.

    Attributes:
        key: Its group, its cluster and its band; None for any cluster, "" for any time.
        is_own: Whether it is of the book itself, not of its base.
    """

    key: tuple[str, str | None, str]
    is_own: bool
    is_superseded: bool
    is_in_force: bool


def judge_candidates(
    candidates: Sequence[ConsideredPrice], *, cluster: str | None, band: str | None = ANY_TIME
) -> list[PriceOutcome]:
    """Return what became of each candidate; at most one applies.

    Args:
        candidates: The most specific key first, and of one key the book's own before its base's.
        cluster: Where it is used; None for clusters without a price of their own.
        band: In which it is used; None where the calendar has ended.
    """
    outcomes: list[PriceOutcome] = []
    winner: ConsideredPrice | None = None
    own_keys = {c.key for c in candidates if c.is_own and c.is_in_force and not c.is_superseded}
    for candidate in candidates:
        if candidate.is_superseded:
            outcomes.append(PriceOutcome.SUPERSEDED)
        elif candidate.key[1] not in {None, cluster}:
            outcomes.append(PriceOutcome.OTHER_CLUSTER)
        elif band is not None and candidate.key[2] not in {ANY_TIME, band}:
            outcomes.append(PriceOutcome.OTHER_BAND)
        elif not candidate.is_in_force:
            outcomes.append(PriceOutcome.NOT_IN_FORCE)
        elif not candidate.is_own and candidate.key in own_keys:
            outcomes.append(PriceOutcome.BASE_OVERRIDDEN)
        elif winner is not None:
            outcomes.append(PriceOutcome.LESS_SPECIFIC)
        else:
            winner = candidate
            is_sure = band is not None or candidate.key[2] == ANY_TIME
            outcomes.append(PriceOutcome.APPLIES if is_sure else PriceOutcome.BAND_UNKNOWN)
    return outcomes
