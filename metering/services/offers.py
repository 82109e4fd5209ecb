"""Offers: what each node offered of each resource in one window, by either source."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from metering.domain.capacity import blind_seconds
from metering.domain.pod_life import CLAIM_PREFIX
from metering.domain.resource_names import sanitise
from metering.domain.window import seconds_between
from metering.selectors.ledger import NodeFact
from metering.services.composed import WindowInput

Place = tuple[str, str]
"""Node and sanitised resource; the class of a device claim as it is."""


@dataclass(frozen=True)
class NodeOffer:
    """One node's one resource.

    Attributes:
        units: The most it offered at once.
        unit_seconds: Units x the seconds in which it was seen to offer them, or in which nobody
            saw anything.
    """

    units: int
    unit_seconds: int


@dataclass(frozen=True)
class Offers:
    """What the nodes of a cluster offered in one window.

    Attributes:
        labels: By node, as last seen.
    """

    window_seconds: int
    by_place: Mapping[Place, NodeOffer] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def offers_of(given: WindowInput) -> Offers:
    """Return what the nodes offered: of two sources the one that saw more of it.

    A node that one source saw too late or too short was there all the same when the other saw it.
    """
    told = [_from_scrapes(given), _from_records(given)]
    places = {place for source in told for place in source}
    labels: dict[str, Mapping[str, str]] = {
        record.node: record.labels for record in given.ledger.nodes
    }
    if given.observation is not None:
        labels |= {node.node: node.labels for node in given.observation.nodes}
    return Offers(
        window_seconds=seconds_between(given.hour.start_at, given.hour.end_at),
        by_place={place: _larger(place, told=told) for place in sorted(places)},
        labels=labels,
    )


def _larger(place: Place, *, told: list[Mapping[Place, NodeOffer]]) -> NodeOffer:
    found = [source[place] for source in told if place in source]
    return NodeOffer(
        units=max(offer.units for offer in found),
        unit_seconds=max(offer.unit_seconds for offer in found),
    )


def _from_scrapes(given: WindowInput) -> Mapping[Place, NodeOffer]:
    seen = given.observation
    if seen is None:
        return {}
    hour = given.hour
    window_seconds = seconds_between(hour.start_at, hour.end_at)
    unseen_seconds = {
        targets: blind_seconds(
            given.scrapes.ticks_for(targets),
            start_at=hour.start_at,
            end_at=hour.end_at,
            scrape_interval_seconds=given.scrape_interval_seconds,
        )
        for targets in {node.targets for node in seen.nodes}
    }
    return {
        (node.node, resource): NodeOffer(
            units,
            node.offered_unit_seconds.get(resource, units * node.covered_seconds)
            + units
            * min(unseen_seconds[node.targets], max(0, window_seconds - node.covered_seconds)),
        )
        for node in seen.nodes
        for resource, units in node.allocatable.items()
        if units > 0
    }


def _from_records(given: WindowInput) -> Mapping[Place, NodeOffer]:
    units: dict[Place, int] = defaultdict(int)
    unit_seconds: dict[Place, int] = defaultdict(int)
    for record in given.ledger.nodes:
        seconds = _seconds_inside(record, given=given)
        for resource, offered in record.allocatable.items():
            if offered > 0 and seconds > 0:
                place = record.node, _offered_as(resource)
                units[place] = max(units[place], offered)
                unit_seconds[place] += offered * seconds
    return {place: NodeOffer(units[place], unit_seconds[place]) for place in units}


def _seconds_inside(record: NodeFact, *, given: WindowInput) -> int:
    until = min(record.end_at or given.hour.end_at, given.hour.end_at)
    return seconds_between(max(record.begin_at, given.hour.start_at), until)


def _offered_as(resource: str) -> str:
    return resource if resource.startswith(CLAIM_PREFIX) else sanitise(resource)
