"""Forgotten decisions: what a person accepted as billed, and of which no source tells any more."""

from collections.abc import Collection, Iterator

from metering.domain.exceptions import ExceptionKind, Finding, pod_subject
from metering.domain.measurement import unit_seconds
from metering.domain.timeline import clip
from metering.selectors.allocations import AllocationKey
from metering.services.composed import WindowInput


def forgotten_decisions(
    given: WindowInput, *, told: Collection[AllocationKey]
) -> Iterator[Finding]:
    """Yield what is held because a person accepted it and nothing else is known of it now.

    Without the pod's node its size is unknown. That a source lost it does not mean that it held
    nothing.
    """
    hour = given.hour
    for key, accepted in sorted(given.ledger.decisions.items()):
        life = accepted.life
        inside = life and clip(life, start_at=hour.start_at, end_at=hour.end_at)
        if key in told or not inside:
            continue
        held = unit_seconds(units=accepted.units, seconds=inside.seconds)
        yield Finding(
            kind=ExceptionKind.PROMETHEUS_ONLY,
            subject=pod_subject(uid=key[0], resource=key[1]),
            namespace=given.ledger.decided_namespaces.get(key, ""),
            summary=(
                "Its evidence was accepted, but no source tells of the pod any more: "
                f"{held} unit-seconds are held."
            ),
            held_unit_seconds=held,
            details={"cause": "forgotten", "resource": key[1], "units": accepted.units},
        )
