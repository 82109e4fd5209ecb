"""Admission in plain Python: limits, pods and what is reserved, without a counter anywhere.

Every number is added up anew from the pods whenever it is asked for; that is what makes it slow,
and a model.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tests.support.quotas.admitting import TTL_SECONDS, Counted

Selector = tuple[str, str | None, str | None, str, str, str]
"""Organization, project, user, size, model group and cluster; "" or None for every one."""


@dataclass
class Limit:
    """A limit and its grants, each with its end."""

    selector: Selector
    units: int | None
    burst: int
    grants: list[tuple[int, datetime]] = field(default_factory=list)

    def holds(self, row: "Row") -> bool:
        organization, project, user, size, group, cluster = self.selector
        return (
            organization == row.organization
            and project in (None, row.project)
            and user in (None, row.user)
            and size == row.size
            and (group == "" or not row.groups or group in row.groups)
            and cluster in ("", row.cluster)
        )

    def in_force(self, at: datetime, *, burst: bool) -> int | None:
        if burst:
            return self.burst
        if self.units is None:
            return None
        granted = sum(units for units, end in self.grants if at < end)
        return max(0, self.units + granted)


@dataclass(frozen=True)
class Row:
    """What one pod takes of one resource."""

    cluster: str
    namespace: str
    organization: str
    project: str
    owner: str
    user: str
    size: str
    units: int
    groups: tuple[str, ...]
    burst: bool
    state: str = "reserved"
    reason: str = ""
    expires_at: datetime | None = None


@dataclass
class Bound:
    """What a pod really got, and whether it has ended."""

    cluster: str
    namespace: str
    owner: str
    size: str
    units: int
    group: str
    burst: bool
    is_ended: bool = False


@dataclass
class Model:
    """The whole of it; a key is a pod's uid and a resource."""

    bindings: dict[tuple[str, str], tuple[str, str, str]]
    """Organization, project and default owner, by cluster and namespace."""
    limits: list[Limit] = field(default_factory=list)
    rows: dict[tuple[str, str], Row] = field(default_factory=dict)
    seen: dict[str, bool] = field(default_factory=dict)
    """Whether a pod the watch has seen waiting is gone."""
    bound: dict[tuple[str, str], Bound] = field(default_factory=dict)
    healthy: dict[str, datetime] = field(default_factory=dict)
    """When each cluster's watch last had eyes."""

    def counted(self, limit: Limit) -> Counted:
        totals = {(s, b): 0 for b in (False, True) for s in ("held", "reserved")}
        for row in self.rows.values():
            if row.state != "released" and limit.holds(row):
                totals[row.state, row.burst] += row.units
        return tuple(totals.values())  # type: ignore[return-value] # Four of them, in order.

    def admit(self, asked: dict[tuple[str, str], Row], at: datetime, *, dry: bool) -> str:
        """Answer a pod whose rows have neither organization, project nor user yet."""
        placed = {key: self._placed(row) for key, row in asked.items()}
        if any(row is None for row in placed.values()):
            return "namespace_unbound"
        rows = {
            key: replace(row, expires_at=at + timedelta(seconds=TTL_SECONDS))
            for key, row in placed.items()
            if row is not None
        }
        before = dict(self.rows)
        code = self._replayed(rows) or self._weigh(list(rows.values()), at)
        if not code.startswith("allowed"):
            organization = next(iter(rows.values())).organization
            self._settle(organization, at)
            code = self._replayed(rows) or self._weigh(list(rows.values()), at)
        if code == "allowed_before":
            rows = {}
        if code.startswith("allowed"):
            self.rows |= rows
        if dry:
            self.rows = before
        return code

    def _replayed(self, rows: dict[tuple[str, str], Row]) -> str:
        """Answer a uid that was let in before; "" for one that was not, or expired unseen."""
        ((uid, _), *_) = rows
        known = {
            key: row
            for key, row in self.rows.items()
            if key[0] == uid and (row.state, row.reason) != ("released", "expired")
        }
        if not known:
            return ""
        is_same = known.keys() == rows.keys() and all(
            row.state != "released"
            and (row.namespace, row.size, row.units)
            == (rows[key].namespace, rows[key].size, rows[key].units)
            for key, row in known.items()
        )
        return "allowed_before" if is_same else "replayed_otherwise"

    def _placed(self, row: Row) -> Row | None:
        found = self.bindings.get((row.cluster, row.namespace))
        if found is None:
            return None
        organization, project, default = found
        return replace(row, organization=organization, project=project, user=row.owner or default)

    def _weigh(self, rows: list[Row], at: datetime) -> str:
        mine = [limit for limit in self.limits if self._is_about(limit, rows[0])]
        if not mine:
            return "allowed_ungoverned"
        for row in rows:
            for group in row.groups or ("",):
                pinned = replace(row, groups=(group,) if group else ())
                if not any(limit.holds(pinned) for limit in mine):
                    return "nothing_granted"
        for limit in mine:
            asked = sum(row.units for row in rows if limit.holds(row))
            cap = limit.in_force(at, burst=rows[0].burst)
            held, reserved, burst_held, burst_reserved = self.counted(limit)
            taken = burst_held + burst_reserved if rows[0].burst else held + reserved
            if asked and cap is not None and taken + asked > cap:
                return "limit_reached"
        return "allowed"

    @staticmethod
    def _is_about(limit: Limit, row: Row) -> bool:
        organization, project, user, *_ = limit.selector
        return (
            organization == row.organization
            and project in (None, row.project)
            and user in (None, row.user)
        )

    def _over(self, key: tuple[str, str], row: Row, at: datetime) -> str:
        bound, gone = self.bound.get(key), self.seen.get(key[0])
        if bound is not None:
            return "ended" if bound.is_ended else ""
        if gone is not None:
            return "gone" if gone else ""
        if row.state != "reserved" or row.expires_at is None or at < row.expires_at:
            return ""
        healthy = self.healthy.get(row.cluster)
        return "expired" if healthy is not None and healthy >= row.expires_at else ""

    def _settle(self, organization: str, at: datetime) -> None:
        for key, row in self.rows.items():
            if row.organization == organization and row.state != "released":
                reason = self._over(key, row, at)
                if reason:
                    self.rows[key] = replace(row, state="released", reason=reason)

    def sweep(self, at: datetime) -> None:
        """Bring every row to what the watch has reported."""
        for key in {*self.rows, *self.bound}:
            row = self._wanted(key, at)
            if row is not None:
                self.rows[key] = row

    def _wanted(self, key: tuple[str, str], at: datetime) -> Row | None:
        row, bound = self.rows.get(key), self.bound.get(key)
        if row is None:
            return None if bound is None else self._found(bound)
        if row.state == "released" and not self._may_come_back(key, row):
            return row
        reason = self._over(key, row, at)
        placed = self._placed(row)
        if reason or placed is None:
            is_new = row.state != "released"
            return replace(row, state="released", reason=reason or "unbound") if is_new else row
        if bound is None:
            is_seen = key[0] in self.seen
            expiry = None if is_seen else row.expires_at
            return replace(placed, state="reserved", reason="", expires_at=expiry)
        return replace(
            placed,
            state="held",
            reason="",
            user=bound.owner or placed.user,
            size=bound.size,
            units=bound.units,
            groups=(bound.group,),
            burst=bound.burst,
            expires_at=None,
        )

    def _may_come_back(self, key: tuple[str, str], row: Row) -> bool:
        bound = self.bound.get(key)
        if bound is not None:
            return not bound.is_ended
        return row.reason in ("expired", "unbound") and self.seen.get(key[0]) is False

    def _found(self, bound: Bound) -> Row | None:
        if bound.is_ended:
            return None
        row = Row(
            cluster=bound.cluster,
            namespace=bound.namespace,
            organization="",
            project="",
            owner="",
            user="",
            size=bound.size,
            units=bound.units,
            groups=(bound.group,),
            burst=bound.burst,
            state="held",
        )
        placed = self._placed(row)
        return None if placed is None else replace(placed, user=bound.owner or placed.user)

    def waiting(self) -> Iterator[str]:
        """Yield the uids of pods that are not bound."""
        bound = {uid for uid, _ in self.bound}
        yield from sorted({uid for uid, _ in self.rows} - bound)
