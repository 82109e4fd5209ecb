"""Limits in words, as a person reads them in a list."""


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
