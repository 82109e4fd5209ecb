"""The effective request: how many units of a resource the scheduler reserves for a pod.

    request = max(containers + sidecars, max over init i of (init i + sidecars declared before i))

Source: kubernetes/component-helpers, `resource/helpers.go`; the same as scheduler and quota.
"""

from collections.abc import Iterable
from typing import Final, Protocol

REGULAR: Final = "regular"
INIT: Final = "init"
SIDECAR: Final = "sidecar"


class ContainerAsk(Protocol):
    """What one container asks of the resource in question; see protocols.ContainerRequest."""

    @property
    def kind(self) -> str:
        """Return "regular", "init" or "sidecar"."""
        ...

    @property
    def units(self) -> int:
        """Return the units asked for."""
        ...

    @property
    def order(self) -> int | None:
        """Return the position among the init containers, None when not known."""
        ...


def effective_units(asks: Iterable[ContainerAsk]) -> int:
    """Return the units a pod holds of one resource from its bind to its end.

    Where the order of an init container or of a sidecar is not known, the sidecar counts as
    declared before: that is an upper bound, and exact for pods without both. A negative request
    cannot be, and makes the whole negative, so that nothing is billed from it.
    """
    listed = list(asks)
    lowest = min((ask.units for ask in listed), default=0)
    if lowest < 0:
        return lowest
    sidecars = [ask for ask in listed if ask.kind == SIDECAR]
    steady = sum(ask.units for ask in listed if ask.kind in {REGULAR, SIDECAR})
    starting = (
        ask.units + sum(other.units for other in sidecars if _may_run_beside(other, ask))
        for ask in listed
        if ask.kind == INIT
    )
    return max(steady, max(starting, default=0))


def _may_run_beside(sidecar: ContainerAsk, init: ContainerAsk) -> bool:
    return sidecar.order is None or init.order is None or sidecar.order < init.order
