"""Composing an observed hour part by part; mostly it is one part, the whole.

What is read and composed of a part lives in the function that does it, so that the next part finds
the memory free.
"""

from collections.abc import Mapping

from metering.domain.catalogue.sizing import Catalogue
from metering.domain.collection.windows import GapPolicy
from metering.domain.corrections.exceptions import Finding
from metering.selectors.allocations.ledger import WindowLedger, node_facts
from metering.services.collection.balancing import Sizer
from metering.services.collection.composed import (
    CapacityRow,
    Composed,
    Place,
    PlaceUse,
    WindowFigures,
    WindowInput,
)
from metering.services.collection.composition import compose_nodes, compose_pods, compose_window
from metering.services.collection.observing import Basis, HourObservation, HourPart, given_of
from metering.services.collection.reconciliation import figures_of


def compose_part(given: WindowInput, *, part: HourPart) -> Composed:
    """Return the rows of a part; the capacity of nodes and what is found of them for the whole."""
    if part.part.is_whole:
        return compose_window(given)
    return compose_pods(given, sizer=Sizer(given.catalogue, observation=given.observation))


def compose_nodes_of(
    observed: HourObservation,
    *,
    uses: Mapping[Place, PlaceUse],
    catalogue: Catalogue,
    gap_policy: GapPolicy | None = None,
) -> tuple[list[CapacityRow], list[Finding]]:
    """Return the capacity of an hour's nodes and what is found of them, for all its parts.

    Args:
        observed: The hour; its pods are not read.
        uses: What all parts used.
        catalogue: The catalogue in force.
        gap_policy: The decision about unobserved time.
    """
    hour = observed.hour
    nodes = (
        node_facts(hour.cluster_id, start_at=hour.start_at, end_at=hour.end_at)
        if hour.is_watched
        else ()
    )
    given = WindowInput(
        hour=hour,
        observation=observed.observation,
        scrapes=observed.scrapes,
        ledger=WindowLedger(nodes=nodes, watch=observed.watch),
        directory={},
        catalogue=catalogue,
        gap_policy=gap_policy,
    )
    return compose_nodes(given, uses=uses, sizer=Sizer(catalogue, observation=observed.observation))


def figures_known(
    observed: HourObservation, *, basis: Basis, catalogue: Catalogue
) -> WindowFigures:
    """Return what the pods of an hour add up to as they were observed, without any estimate."""
    figures = WindowFigures()
    for part in observed.all_parts:
        figures.add(_figures_of_part(observed, part=part, basis=basis, catalogue=catalogue))
    return figures


def _figures_of_part(
    observed: HourObservation, *, part: HourPart, basis: Basis, catalogue: Catalogue
) -> WindowFigures:
    seen = observed.of_part(part)
    given = given_of(seen, basis=basis, catalogue=catalogue, part=part.part)
    return figures_of(compose_part(given, part=part), holes=observed.holes)
