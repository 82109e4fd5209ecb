"""In whatever order usage, prices and retries come, each use is charged once, or waits for a price.

The oracle is a few sums in plain Python; it shares no code with accrual.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.models import AccrualException, AccruedUsage, Charge
from billing.selectors.pending import pending_window_ids
from billing.services.accrual import accrue_windows
from billing.tasks import ACTOR, accrue_pending
from tests.support.billing.ledger import (
    HOUR,
    Ledger,
    Use,
    assign,
    make_book,
    make_price,
    sealed_window,
)
from tests.support.builders import AT, MONTH_START, make_cluster, make_organization, make_project
from tests.support.sampling import soaked

SLUGS = ("acme", "umbrella")
SIZES = ("small", "large")
PRICES = {("acme", "small"): "2", ("acme", "large"): "8"}
PRICES |= {("umbrella", "small"): "3", ("umbrella", "large"): "9"}
slugs, sizes = st.sampled_from(SLUGS), st.sampled_from(SIZES)
uses = st.lists(st.tuples(slugs, sizes, st.integers(0, 3600)), max_size=4)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("seal"), uses),
        st.tuples(st.just("price"), slugs, sizes),
        st.tuples(st.just("assign"), slugs),
        st.tuples(st.just("rate"), slugs),
        st.tuples(st.just("tick")),
    ),
    min_size=3,
    max_size=14,
)
Used = Counter[tuple[int, str, str]]
"""Unit-seconds by window, organization and size."""


class World:
    """Two organizations without books, and what was used, priced and assigned so far."""

    def __init__(self) -> None:
        self.cluster = make_cluster()
        self.ledgers = {slug: self._ledger(slug) for slug in SLUGS}
        self.used: Used = Counter()
        self.priced: set[tuple[str, str]] = set()
        self.assigned: set[str] = set()
        self.windows: list[int] = []

    def _ledger(self, slug: str) -> Ledger:
        organization = make_organization(slug)
        project = make_project(organization)
        return Ledger(organization, project, project, self.cluster, make_book(slug))

    def seal(self, used: list[tuple[str, str, int]]) -> None:
        window = sealed_window(
            self.cluster,
            [Use(self.ledgers[slug].llm, seconds, size=size) for slug, size, seconds in used],
            start_at=MONTH_START + len(self.windows) * HOUR,
        )
        self.windows.append(window.pk)
        for slug, size, seconds in used:
            self.used[window.pk, slug, size] += seconds

    def price(self, slug: str, size: str) -> None:
        if (slug, size) not in self.priced:
            make_price(self.ledgers[slug].book, PRICES[slug, size], size=size)
            self.priced.add((slug, size))

    def assign(self, slug: str) -> None:
        if slug not in self.assigned:
            assign(self.ledgers[slug].organization, self.ledgers[slug].book)
            self.assigned.add(slug)

    def rate(self, slug: str) -> None:
        """Rate the usage of one organization, as after a fault of the other."""
        only = [self.ledgers[slug].organization.pk]
        accrue_windows(window_ids=self.windows, organization_ids=only, actor=ACTOR, at=AT)

    def tick(self) -> None:
        accrue_pending(at=AT, actor=ACTOR)
        assert pending_window_ids(limit=99) == []
        assert charges() == {key: sum_ for key, sum_ in self.used.items() if self._is_due(*key)}
        waiting: Counter[tuple[int, str]] = Counter()
        for (window, slug, size), sum_ in self.used.items():
            waiting[window, slug] += 0 if self._is_due(window, slug, size) else sum_
        assert unpriced() == +waiting

    def _is_due(self, window: int, slug: str, size: str) -> bool:
        is_used = self.used[window, slug, size] > 0
        return is_used and slug in self.assigned and (slug, size) in self.priced


def charges() -> dict[tuple[int, str, str], int]:
    """Return charges by window, organization and size; each key must have one, at its price."""
    rows = list(Charge.objects.select_related("organization"))
    found = {(row.window_id, row.organization.slug, row.size): row.unit_seconds for row in rows}
    assert len(found) == len(rows)
    assert all(f"{r.unit_price:.0f}" == PRICES[r.organization.slug, r.size] for r in rows)
    return found


def unpriced() -> Counter[tuple[int, str]]:
    rows = AccruedUsage.objects.select_related("organization")
    stored = {(row.window_id, row.organization.slug): row.unpriced_unit_seconds for row in rows}
    noted: Counter[tuple[int, str]] = Counter()
    for lack in AccrualException.objects.filter(resolved_at=None).select_related("organization"):
        noted[lack.window_id, lack.organization.slug] += lack.unit_seconds
    assert noted == +Counter(stored)
    return noted


@contextmanager
def rolled_back() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def play(moves: list[tuple[object, ...]]) -> None:
    world = World()
    for name, *arguments in moves:
        getattr(world, str(name))(*arguments)
    for slug in SLUGS:
        world.assign(slug)
        for size in SIZES:
            world.price(slug, size)
    world.tick()
    assert sum(charges().values()) == world.used.total()
    assert not AccrualException.objects.filter(resolved_at=None).exists()
    assert not AccruedUsage.objects.exclude(unpriced_unit_seconds=0).exists()


@pytest.mark.django_db
@pytest.mark.parametrize("examples", [25, soaked(500)])
def test_any_order_of_usage_prices_and_retries_charges_each_use_once(examples: int) -> None:
    health = [HealthCheck.function_scoped_fixture]

    @settings(max_examples=examples, deadline=None, suppress_health_check=health)
    @given(moves=steps)
    def case(moves: list[tuple[object, ...]]) -> None:
        with rolled_back():
            play(moves)

    case()
