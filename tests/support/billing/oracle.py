"""What an organization's documents cost, in fractions and by definition; imports nothing of ours.

Amounts are whole minor units. A document has what is owed for all use of its keys, less what
documents in force have of them, so that only the use and the terms decide, and no order.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor
from typing import NamedTuple, TypeVar

Line = TypeVar("Line", bound=tuple[object, ...])


class Key(NamedTuple):
    """What use is added up by: month of service, project, device share, price per unit-hour."""

    service: str
    project: str
    group: str
    price: Fraction


@dataclass(frozen=True)
class Tiers:
    """A schedule of all months: bounds with percents, by unit-hours or list money."""

    is_volume: bool
    by_money: bool
    by_project: bool
    by_year: bool
    bands: tuple[tuple[Fraction, Fraction], ...]


@dataclass
class Charge:
    """Use of a key that is posted to a month."""

    posted: str
    key: Key
    seconds: int


@dataclass
class Document:
    """Amounts of a month, and what notes changed of its lines: all of them, and credits alone."""

    month: str
    use: dict[Key, tuple[int, int]] = field(default_factory=dict)
    tiers: dict[tuple[str, int, str], int] = field(default_factory=dict)
    minimum: dict[tuple[str, str], int] = field(default_factory=dict)
    changed: dict[Key, int] = field(default_factory=dict)
    credited: dict[Key, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All lines."""
        use = sum(amount for _, amount in self.use.values())
        return use + sum(self.tiers.values()) + sum(self.minimum.values())


def rounded(amount: Fraction) -> int:
    """Return the nearest whole number, halves away from zero."""
    return floor(amount + Fraction(1, 2)) if amount >= 0 else -floor(Fraction(1, 2) - amount)


def shared(amount: int, weights: Mapping[str, Fraction], order: Iterable[str]) -> dict[str, int]:
    """Return shares that add up: exact ones cut off, the rest to the largest remainders."""
    names = [name for name in order if name in weights]
    whole, sign = sum(weights.values(), Fraction()), 1 if amount >= 0 else -1
    exact = {name: abs(amount) * weights[name] / whole for name in names}
    parts = {name: floor(share) for name, share in exact.items()}
    left = abs(amount) - sum(parts.values())
    for name in sorted(names, key=lambda one: parts[one] - exact[one])[:left]:
        parts[name] += 1
    return {name: sign * part for name, part in parts.items()}


def less(
    due: Mapping[Line, int], first: str, billed: Iterable[Mapping[Line, int]]
) -> dict[Line, int]:
    """Return what is due less what lines that begin with a label have already."""
    left = dict(due)
    for lines in billed:
        for line, amount in lines.items():
            if line[0] == first:
                left[line] = left.get(line, 0) - amount
    return {line: amount for line, amount in left.items() if amount}


class Oracle:
    """Charges, terms and documents of one organization."""

    def __init__(
        self, *, digits: int, projects: list[str], tiers: Tiers | None, minimum: int
    ) -> None:
        """Begin with nothing used.

        Args:
            digits: Of the minor unit.
            projects: In the order in which equal remainders go to them.
            tiers: None for none.
            minimum: Of each month; 0 for none.
        """
        self.scale, self.projects, self.tiers, self.minimum = 10**digits, projects, tiers, minimum
        self.charges: list[Charge] = []
        self.documents: list[Document] = []
        self.notes: defaultdict[Key, list[tuple[int, int]]] = defaultdict(list)

    def price_of(self, key: Key, seconds: int) -> int:
        """Return what use costs, rounded once."""
        return rounded(key.price * seconds * self.scale / 3600)

    def owed(self, key: Key, seconds: int, notes: int | None = None) -> int:
        """Return what is owed for use of a key after the first so many notes on it."""
        if not (count := len(self.notes[key]) if notes is None else notes):
            return self.price_of(key, seconds)
        level, change = self.notes[key][count - 1]
        here, there = (self.owed(key, one, count - 1) for one in (seconds, level))
        if change < 0:
            return here + change + min(-change, max(0, there - here))
        return here + change - min(change, max(0, here - there))

    def billed(self, key: Key, without: Document | None = None) -> tuple[int, int]:
        """Return unit-seconds and amount that documents in force, and notes, have of a key."""
        there = [doc for doc in self.documents if doc is not without]
        lines = [doc.use[key] for doc in there if key in doc.use]
        changed = sum(doc.changed.get(key, 0) for doc in there)
        return sum(n for n, _ in lines), sum(amount for _, amount in lines) + changed

    def compose(self, month: str, without: Document | None = None) -> Document:
        """Return the document of a month as it would be now.

        Args:
            month: Whose charges.
            without: The document that it replaces.
        """
        made = Document(month)
        seconds: defaultdict[Key, int] = defaultdict(int)
        for charge in self.charges:
            if charge.posted == month:
                seconds[charge.key] += charge.seconds
        for key, more in seconds.items():
            before, amount = self.billed(key, without)
            made.use[key] = more, self.owed(key, before + more) - amount
        there = [doc for doc in self.documents if doc is not without]
        months = {month, *(key.service for key in seconds)}
        self._add_tiers(made, there, {self.span_of(label) for label in months})
        self._add_minimum(made, there, month)
        return made

    def span_of(self, month: str) -> str:
        """Return the first month of what a schedule counts; years begin in October."""
        if self.tiers is None or not self.tiers.by_year:
            return month
        year = int(month[:4])
        return f"{year if month[5:] >= '10' else year - 1}-10"

    def note(self, document: Document, key: Key, change: int) -> None:
        """Change what is owed of a line of a document by a credit or debit note."""
        self.notes[key].append((self.billed(key)[0], change))
        document.changed[key] = document.changed.get(key, 0) + change
        document.credited[key] = document.credited.get(key, 0) + min(0, change)

    def discounts(self, seconds: Mapping[Key, int]) -> dict[tuple[int, str], int]:
        """Return what the schedule gives on the use of one span, by band and project."""
        assert self.tiers is not None
        groups = [[name] for name in self.projects] if self.tiers.by_project else [self.projects]
        found: dict[tuple[int, str], int] = {}
        for group in groups:
            own = {key: Fraction(n, 3600) for key, n in seconds.items() if key.project in group}
            money = {
                name: sum(
                    (key.price * n for key, n in own.items() if key.project == name), Fraction()
                )
                for name in {key.project for key in own}
            }
            hours, cost = sum(own.values(), Fraction()), sum(money.values(), Fraction())
            total = cost if self.tiers.by_money else hours
            if total <= 0 or cost <= 0:
                continue
            weights = {name: max(Fraction(), one) for name, one in money.items()}
            for band, (part, percent) in self._in_bands(total).items():
                amount = rounded(cost * part / total * percent / 100 * self.scale)
                for name, share in shared(amount, weights, self.projects).items():
                    found[band, name] = share
        return found

    def _in_bands(self, total: Fraction) -> dict[int, tuple[Fraction, Fraction]]:
        """Return content and percent of each band from 1 that gives something."""
        assert self.tiers is not None
        bounds = [bound for bound, _ in self.tiers.bands]
        reached = sum(bound < total for bound in bounds)
        if self.tiers.is_volume:
            found = {reached: (total, self.tiers.bands[reached - 1][1])}
        else:
            ends = [*bounds[1:reached], total]
            found = {
                number + 1: (ends[number] - bounds[number], self.tiers.bands[number][1])
                for number in range(reached)
            }
        return {band: one for band, one in found.items() if one[1]}

    def _add_tiers(self, made: Document, there: list[Document], spans: set[str]) -> None:
        for span in spans if self.tiers else ():
            seconds: defaultdict[Key, int] = defaultdict(int)
            for doc in (*there, made):
                for key, (more, _) in doc.use.items():
                    if self.span_of(key.service) == span:
                        seconds[key] += more
            found = self.discounts(seconds).items()
            due = {(span, band, name): -amount for (band, name), amount in found}
            made.tiers |= less(due, span, [doc.tiers for doc in there])

    def _net(self, doc: Document) -> dict[tuple[str, str], int]:
        """Return the sums of use and tiers, by month and project."""
        net: defaultdict[tuple[str, str], int] = defaultdict(int)
        for key, (_, amount) in doc.use.items():
            net[key.service, key.project] += amount
        for (span, _, name), amount in doc.tiers.items():
            is_year = self.tiers is not None and self.tiers.by_year
            net[doc.month if is_year else span, name] += amount
        return net

    def _net_of(self, documents: Iterable[Document], label: str) -> dict[str, int]:
        """Return the sums of use and tiers of a month, by project."""
        net: defaultdict[str, int] = defaultdict(int)
        for doc in documents:
            for (of, name), amount in self._net(doc).items():
                if of == label:
                    net[name] += amount
        return net

    def _add_minimum(self, made: Document, there: list[Document], month: str) -> None:
        for label in {month, *(of for of, _ in self._net(made))} if self.minimum else ():
            net = self._net_of((*there, made), label)
            missing = self.minimum - sum(net.values())
            weights = {name: Fraction(max(0, amount)) for name, amount in net.items()}
            due: dict[tuple[str, str], int] = {}
            if missing > 0 and not any(weights.values()):
                due[label, min(self.projects)] = missing
            elif missing > 0:
                parts = shared(missing, weights, self.projects)
                due = {(label, name): part for name, part in parts.items()}
            made.minimum |= less(due, label, [doc.minimum for doc in there])
