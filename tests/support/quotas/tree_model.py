"""A plain model of an organization's limits, written without a look at the product's rules.

Limits stand in a dictionary, grants in a list; whether all holds is asked hour by hour.
"""

from dataclasses import dataclass, field, replace

Selector = tuple[str, str, str]
"""Size, model group and cluster; "" for every one."""
Key = tuple[str, str, Selector]
"""Project, user ("" for the wider level) and selector."""
FAR = 60
"""No test plays longer, in hours: a grant up to here never ends."""


@dataclass(frozen=True)
class ModelLimit:
    """What a limit says; units of None are unlimited."""

    units: int | None
    percent: int = 100


@dataclass(frozen=True)
class ModelGrant:
    """Units on a limit from one hour up to another."""

    key: Key
    units: int
    begin: int
    end: int


@dataclass(frozen=True)
class ModelTree:
    """Limits and the grants on them."""

    limits: dict[Key, ModelLimit] = field(default_factory=dict)
    grants: tuple[ModelGrant, ...] = ()

    def with_limit(self, key: Key, limit: ModelLimit) -> "ModelTree":
        """Return the tree with one limit set."""
        return replace(self, limits={**self.limits, key: limit})

    def without(self, key: Key) -> "ModelTree":
        """Return the tree without a limit and its grants."""
        return ModelTree(
            {k: one for k, one in self.limits.items() if k != key},
            tuple(grant for grant in self.grants if grant.key != key),
        )

    def units(self, key: Key, hour: int) -> int | None:
        """Return what a limit comes to in an hour; None is unlimited."""
        own = self.limits[key].units
        if own is None:
            return None
        return own + sum(
            grant.units
            for grant in self.grants
            if grant.key == key and grant.begin <= hour < grant.end
        )

    def holds_from(self, hour: int) -> bool:
        """Whether every rule holds in an hour and in all that follow."""
        edges = {hour}
        for grant in self.grants:
            edges |= {edge for edge in (grant.begin, grant.end) if hour < edge < FAR}
        return all(self._holds(edge) for edge in edges)

    def _holds(self, hour: int) -> bool:
        units = {key: self.units(key, hour) for key in self.limits}
        return all(
            (own is None or own >= 0)
            and self._fits_under(key, units)
            and self._is_not_promised_twice(key, units)
            for key, own in units.items()
        )

    def _fits_under(self, key: Key, units: dict[Key, int | None]) -> bool:
        project, user, (size, group, cluster) = key
        own = units[key]
        above = [("", "")] if user == "" and project else []
        if user:
            above = [("", ""), (project, "")]
        for holder in above:
            for wider in {(size, g, c) for g in ("", group) for c in ("", cluster)}:
                ceiling = units.get((*holder, wider))
                if ceiling is not None and (own is None or own > ceiling):
                    return False
        return True

    def _is_not_promised_twice(self, key: Key, units: dict[Key, int | None]) -> bool:
        project, user, selector = key
        own = units[key]
        if own is None or user:
            return True
        below = [
            given or 0
            for (p, u, s), given in units.items()
            if s == selector and ((p and not u) if not project else (p == project and u))
        ]
        return sum(below) * 100 <= own * self.limits[key].percent
