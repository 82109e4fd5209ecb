"""What a limit is about: a size, for every GPU model and cluster or for one of them."""

import re
from dataclasses import dataclass
from typing import Final

from metering.domain.catalogue.units import GPUSize
from tenants.domain.errors import FieldProblem

MODEL_GROUP_LENGTH_MAX: Final = 32
_MODEL_GROUP: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")


@dataclass(frozen=True, order=True)
class LimitSelector:
    """Which units count against a limit.

    Attributes:
        model_group: Such as "H100"; "" for every model.
        cluster: Slug of a cluster; "" for every cluster.
    """

    size: GPUSize
    model_group: str = ""
    cluster: str = ""

    @property
    def breadth(self) -> int:
        """Return how wide it is, 0 for the narrowest."""
        return (not self.model_group) + (not self.cluster)

    def covers(self, other: "LimitSelector") -> bool:
        """Whether everything the other counts is counted here too: it is as narrow, or narrower."""
        return (
            self.size is other.size
            and self.model_group in {"", other.model_group}
            and self.cluster in {"", other.cluster}
        )

    def __str__(self) -> str:
        """Return it as text, such as "large H100 on hopper"."""
        group = f" {self.model_group}" if self.model_group else ""
        place = f" on {self.cluster}" if self.cluster else ""
        return f"{self.size.value}{group}{place}"


def model_group_problems(value: object, *, field: str = "model_group") -> tuple[FieldProblem, ...]:
    """Return what is wrong with the name of a model group; "" is right, and means every model."""
    if value == "" or (isinstance(value, str) and _MODEL_GROUP.fullmatch(value)):
        return ()
    message = (
        'Send the name of a GPU model as in a price group before the slash, such as "H100", or '
        '"" for every model.'
    )
    return (FieldProblem(field=field, code="model_group_invalid", message=message),)


def format_limit(
    units: int | None,
    *,
    size: str,
    model_group: str = "",
    cluster: str = "",
    burst_units: int = 0,
) -> str:
    """Return what a limit says, such as "8 Large, H100 only, on hopper, +2 burst".

    Args:
        units: None is unlimited.
        size: Name of the size.
        model_group: "" for every model.
        cluster: Slug; "" for every cluster.
        burst_units: What preemptible pods may hold beyond.
    """
    said = f"{'unlimited' if units is None else units} {size.capitalize()}"
    parts = (
        said,
        f"{model_group} only" if model_group else "",
        f"on {cluster}" if cluster else "",
        f"+{burst_units} burst" if burst_units else "",
    )
    return ", ".join(part for part in parts if part)


def format_in_force(units: int | None, *, granted_units: int, is_suspended: bool) -> str:
    """Return what binds now: the units with their grants, or that nothing may start.

    Args:
        units: As set; None is unlimited.
        granted_units: What the grants of now add, signed.
        is_suspended: Whether the holder, or one above it, may start nothing.
    """
    if is_suspended:
        return "suspended"
    if units is None:
        return "unlimited"
    if granted_units == 0:
        return str(units)
    return f"{max(0, units + granted_units)} ({granted_units:+d} granted)"
