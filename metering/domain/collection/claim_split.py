"""Splitting a claim: its unit-seconds among the pods that use it, so that the parts add up.

A device claim is billed once, however many pods share it. At every moment its units are split
evenly among the pods that use it then; unused time is charged to the claim itself.
"""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from metering.domain.allocations.timeline import seconds_between
from metering.domain.catalogue.units import unit_seconds

NOBODY: Final = ""
"""Pod uid of the claim itself, for the time in which no pod uses it."""


@dataclass(frozen=True)
class Use:
    """One pod's use of a claim; `end_at` is None while in use."""

    pod_uid: str
    begin_at: datetime
    end_at: datetime | None = None


@dataclass(frozen=True)
class ClaimPart:
    """What one pod, or the claim itself, is charged for a part of a claim's time.

    Attributes:
        pod_uid: `NOBODY` for the claim itself.
        begin_at: Begin of its first moment.
        end_at: End of its last one; gaps in between are not charged to it.
        unit_seconds: Its share.
        split_among: The highest number of pods that shared the claim at once, itself included; more
            than 1 also where a gap makes the share less than units times seconds.
    """

    pod_uid: str
    begin_at: datetime
    end_at: datetime
    unit_seconds: int
    split_among: int


@dataclass(frozen=True)
class _Piece:
    """One charge for one segment in which the set of pods did not change."""

    pod_uid: str
    begin_at: datetime
    end_at: datetime
    unit_seconds: int
    among: int


def split_claim(
    *, units: int, begin_at: datetime, end_at: datetime, uses: Sequence[Use]
) -> tuple[ClaimPart, ...]:
    """Return a claim's unit-seconds over [begin_at, end_at), by pod, in order of uid.

    Each segment without a change of pods is split evenly; the remainder goes, unit by unit, to the
    pods with the least so far, and among these in order of uid.

    Args:
        units: Devices the claim holds.
        begin_at: Start in whole seconds, included.
        end_at: End in whole seconds, excluded.
        uses: When each pod used it, in whole seconds; they may reach beyond the range, and overlap.
    """
    edges = {begin_at, end_at}
    for use in uses:
        edges |= {moment for moment in (use.begin_at, use.end_at) if moment is not None}
    inside = sorted(edge for edge in edges if begin_at <= edge <= end_at)
    pieces: dict[str, list[_Piece]] = defaultdict(list)
    given: dict[str, int] = defaultdict(int)
    for first, last in itertools.pairwise(inside):
        users = sorted({use.pod_uid for use in uses if _covers(use, begin=first, end=last)})
        sharers = users or [NOBODY]
        whole = unit_seconds(units=units, seconds=seconds_between(first, last))
        for pod_uid, share in _even(whole, sharers=sharers, given=given).items():
            given[pod_uid] += share
            pieces[pod_uid].append(_Piece(pod_uid, first, last, share, len(sharers)))
    return tuple(_joined(pieces[pod_uid], units=units) for pod_uid in sorted(pieces))


def _covers(use: Use, *, begin: datetime, end: datetime) -> bool:
    return use.begin_at <= begin and (use.end_at is None or end <= use.end_at)


def _even(whole: int, *, sharers: Sequence[str], given: dict[str, int]) -> dict[str, int]:
    base, rest = divmod(whole, len(sharers))
    favoured = sorted(sharers, key=lambda pod_uid: (given[pod_uid], pod_uid))[:rest]
    return {pod_uid: base + (pod_uid in favoured) for pod_uid in sharers}


def _joined(pieces: Sequence[_Piece], *, units: int) -> ClaimPart:
    begin_at, end_at = pieces[0].begin_at, pieces[-1].end_at
    total = sum(piece.unit_seconds for piece in pieces)
    is_whole = total == unit_seconds(units=units, seconds=seconds_between(begin_at, end_at))
    among = max(piece.among for piece in pieces)
    return ClaimPart(
        pod_uid=pieces[0].pod_uid,
        begin_at=begin_at,
        end_at=end_at,
        unit_seconds=total,
        split_among=among if is_whole else max(2, among),
    )
