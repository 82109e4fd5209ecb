"""The one SQL statement charges what the reference in plain Python charges, book by book."""

from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.domain.pricing.price_book import PriceSpan
from billing.domain.pricing.price_calendar import DAYS
from billing.domain.pricing.price_candidate import PriceOutcome
from billing.domain.pricing.rating import (
    BookSpan,
    ChargeKey,
    ClassSpan,
    Missing,
    MissingKey,
    UsageFact,
    rate_usage,
)
from billing.models import (
    AccrualException,
    AccruedUsage,
    Charge,
    CustomerClass,
    CustomerClassMembership,
    OrganizationBook,
    Price,
    PriceBook,
    PriceBookAssignment,
    PriceCalendar,
)
from billing.selectors.pricing.price_calendars import span_of
from billing.selectors.pricing.price_lookup import which_price
from billing.services.accrual import accrue_windows
from billing.services.pricing.assignments import assign_price_book
from billing.services.pricing.customer_classes import set_customer_class
from metering.models import MeteringWindow
from tests.support.billing.ledger import (
    HOUR,
    TICK,
    Ledger,
    Use,
    add_usage,
    assign,
    make_book,
    make_discount_book,
    make_price,
    make_window,
    seal,
)
from tests.support.builders import (
    AT,
    MONTH_START,
    bind,
    make_cluster,
    make_organization,
    make_project,
)

GROUPS = ("H100/whole", "A100/1of4", "H100/whole/burst")
HOURS = 6
hours = st.integers(0, HOURS)
uses = st.lists(
    st.tuples(
        st.integers(0, HOURS - 1),
        st.sampled_from(["acme", "umbrella"]),
        st.sampled_from(["", "carol"]),
        st.sampled_from(["small", "large"]),
        st.sampled_from(GROUPS),
        st.integers(0, 3600),
    ),
    min_size=1,
    max_size=10,
)
price_starts = st.dictionaries(
    st.tuples(
        st.sampled_from(["small", "large"]),
        st.sampled_from([*GROUPS, "*", "*/burst", "H100/*"]),
        st.sampled_from([None, None, "acme", "umbrella"]),
        st.sampled_from(["", "", "peak"]),
    ),
    st.lists(hours, unique=True, min_size=1, max_size=3).map(sorted),
    max_size=6,
)
"""By size, group, cluster and band; None for any cluster, "" for any time."""
Key = tuple[str, str, str | None, str]
calendars = st.none() | st.tuples(
    st.sampled_from(["UTC", "Asia/Kolkata", "Asia/Kathmandu", "America/St_Johns"]),
    st.sampled_from(["02:00", "05:30", "07:46", "21:31"]),
    hours,
    st.none() | st.integers(HOURS // 2, HOURS),
)
"""Zone, local begin of the peak, first hour and last hour of the calendar of Acme's book."""
Peak = tuple[str, str, int, int | None]


def ledger_for(
    prices: dict[Key, list[int]],
    book_from: int,
    discounted_keys: set[tuple[str, str]] | None,
) -> dict[str, Ledger]:
    """Return two ledgers; Umbrella's book is a discount on Acme's if it has keys of its own."""
    ledgers: dict[str, Ledger] = {}
    clusters = {slug: make_cluster(f"of-{slug}") for slug in ("acme", "umbrella")}
    for slug, begin in (("acme", 0), ("umbrella", book_from)):
        organization = make_organization(slug)
        project = make_project(organization)
        cluster = clusters[slug]
        bind(cluster, "ns", project)
        book = make_book(slug)
        if discounted_keys is not None and slug == "umbrella":
            book = make_discount_book("umbrella-discount", ledgers["acme"].book, "12.5")
        own = None if book.base_book is None else discounted_keys
        assign(organization, book, begin_at=MONTH_START + begin * HOUR)
        for (size, group, whose, band), starts in prices.items():
            if own is not None and (size, group) not in own:
                continue
            for start, end in zip(starts, [*starts[1:], None], strict=True):
                make_price(
                    book,
                    size=size,
                    price_group=group,
                    cluster=None if whose is None else clusters[whose],
                    band=band,
                    begin_at=MONTH_START + start * HOUR,
                    end_at=None if end is None else MONTH_START + end * HOUR,
                )
        ledgers[slug] = Ledger(organization, project, project, cluster, book)
    return ledgers


def put_peak(ledger: Ledger, peak: Peak | None) -> None:
    """Give a book a calendar whose peak lasts to the end of the local day, save holidays."""
    if peak is None:
        return
    zone, begin, first, last = peak
    PriceCalendar.objects.create(
        price_book=ledger.book,
        time_zone=zone,
        bands=[{"band": "peak", "days": [*DAYS[:7]], "from": begin, "to": "24:00"}],
        holidays={"2026-09-30": "Yesterday"},
        begin_at=MONTH_START + first * HOUR,
        end_at=None if last is None else MONTH_START + (first + last) * HOUR,
        published_at=AT,
    )


def put_behind(
    ledgers: dict[str, Ledger], class_from: int | None, default_from: int | None
) -> None:
    """Give Umbrella a class with Acme's book, and everybody a default book with one price."""
    made: dict[str, Any] = {"actor": TICK, "at": AT}
    if class_from is not None:
        academic = CustomerClass.objects.get(slug="academic")
        assign_price_book(
            price_book=ledgers["acme"].book,
            customer_class=academic,
            valid_from=MONTH_START,
            **made,
        )
        set_customer_class(
            organization=ledgers["umbrella"].organization,
            customer_class=academic,
            valid_from=MONTH_START + class_from * HOUR,
            **made,
        )
    if default_from is not None:
        book = make_book("default")
        make_price(book)
        begin_at = MONTH_START + default_from * HOUR
        assign_price_book(price_book=book, is_default=True, valid_from=begin_at, **made)


def expected(facts: list[UsageFact]) -> tuple[dict[Any, int], dict[Any, int]]:
    prices = [
        PriceSpan(
            id=str(p.pk),
            book=p.price_book.slug,
            size=p.size,
            price_group=p.price_group,
            cluster=None if p.cluster_id is None else str(p.cluster_id),
            band=p.band,
            unit_price=p.unit_price,
            begin_at=p.valid.lower,
            end_at=p.valid.upper,
        )
        for p in Price.objects.select_related("price_book")
    ]
    books = [
        BookSpan(
            None if a.organization is None else a.organization.slug,
            book.slug,
            a.valid.lower,
            None,
            base_book=None if book.base_book is None else book.base_book.slug,
            customer_class=None if a.customer_class is None else a.customer_class.slug,
        )
        for a in PriceBookAssignment.objects.all()
        for book in PriceBook.objects.filter(assignments=a).select_related("base_book")
    ]
    classes = [
        ClassSpan(m.organization.slug, m.customer_class.slug, m.valid.lower, m.valid.upper)
        for m in CustomerClassMembership.objects.select_related("organization")
        if m.customer_class is not None
    ]
    spans = [span_of(row) for row in PriceCalendar.objects.select_related("price_book")]
    rating = rate_usage(facts, books=books, prices=prices, classes=classes, calendars=spans)
    return rating.charged, rating.unpriced


def stored_rating() -> tuple[dict[ChargeKey, int], dict[MissingKey, int]]:
    """Return what is charged, and what is noted to lack a price."""
    charges = {
        ChargeKey(
            c.window_id, str(c.project_id), c.owner, c.size, c.price_group, str(c.price_id)
        ): c.unit_seconds
        for c in Charge.objects.all()
    }
    missing = {
        MissingKey(
            e.window_id, str(e.project_id), e.size, e.price_group, Missing(e.code)
        ): e.unit_seconds
        for e in AccrualException.objects.all()
    }
    return charges, missing


def used_by(ledger: Ledger, use: tuple[int, str, str, str, str, int]) -> Use:
    return Use(ledger.llm, use[5], owner=use[2], size=use[3], price_group=use[4])


def assert_discounted() -> None:
    """Compare each charge with its price, less the discount where it is of the base book."""
    for charge in Charge.objects.select_related("price__price_book", "organization"):
        billed = OrganizationBook.objects.get(
            organization=charge.organization, valid__contains=charge.window_start
        )
        is_own = charge.price.price_book_id == billed.price_book_id
        price = charge.price.unit_price
        assert charge.unit_price == (price if is_own else price * Decimal("0.875"))


def assert_answered() -> None:
    """Compare each charge with the answer to the question which price applies."""
    for charge in Charge.objects.all():
        found = which_price(
            organization_id=charge.organization_id,
            size=charge.size,
            price_group=charge.price_group,
            cluster_id=charge.cluster_id,
            hour=charge.window_start,
        )
        assert found.price is not None
        assert (found.price.pk, found.unit_price) == (charge.price_id, charge.unit_price)
        applying = [c.price.pk for c in found.candidates if c.outcome == PriceOutcome.APPLIES]
        assert applying == [charge.price_id]
        books = [b.assignment.price_book_id for b in found.books if b.outcome == "applies"]
        assert found.billed is not None
        assert books == [found.billed.price_book_id]


def sums_by_window(
    charges: dict[ChargeKey, int], missing: dict[MissingKey, int]
) -> dict[int, tuple[int, int]]:
    """Return what is charged and what is not by window, each of which has one organization."""
    charged: Counter[int] = Counter()
    unpriced: Counter[int] = Counter()
    for key, unit_seconds in charges.items():
        charged[key.window_id] += unit_seconds
    for lack, unit_seconds in missing.items():
        unpriced[lack.window_id] += unit_seconds
    return {window: (charged[window], unpriced[window]) for window in charged | unpriced}


@pytest.mark.django_db
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    used=uses,
    prices=price_starts,
    book_from=hours,
    class_from=st.none() | hours,
    default_from=st.none() | hours,
    peak=calendars,
    own=st.none()
    | st.sets(st.tuples(st.sampled_from(["small", "large"]), st.sampled_from([*GROUPS, "*"]))),
)
def test_the_statement_charges_what_the_reference_charges(
    *,
    used: list[tuple[int, str, str, str, str, int]],
    prices: dict[Key, list[int]],
    book_from: int,
    class_from: int | None,
    default_from: int | None,
    peak: Peak | None,
    own: set[tuple[str, str]] | None,
) -> None:
    with transaction.atomic():
        ledgers = ledger_for(prices, book_from, own)
        put_peak(ledgers["acme"], peak)
        put_behind(ledgers, class_from, default_from)
        windows: dict[tuple[str, int], MeteringWindow] = {}
        facts = []
        for hour, slug, owner, size, group, seconds in used:
            ledger = ledgers[slug]
            key = (slug, hour)
            if key not in windows:
                windows[key] = make_window(ledger.cluster, MONTH_START + hour * HOUR)
            facts.append(
                UsageFact(
                    window_id=windows[key].pk,
                    window_start=windows[key].start_at,
                    organization=slug,
                    project=str(ledger.llm.pk),
                    owner=owner,
                    size=size,
                    price_group=group,
                    unit_seconds=seconds,
                    cluster=str(ledger.cluster.pk),
                )
            )
        for key, window in windows.items():
            held = [u for u in used if (u[1], u[0]) == key]
            add_usage(window, [used_by(ledgers[u[1]], u) for u in held])
            seal(window)

        accrue_windows(window_ids=[w.pk for w in windows.values()], actor=TICK, at=AT)

        charges, missing = stored_rating()
        assert (charges, missing) == expected(facts)
        assert_discounted()
        assert_answered()
        stored = {
            row.window_id: (row.charged_unit_seconds, row.unpriced_unit_seconds)
            for row in AccruedUsage.objects.all()
        }
        assert stored == sums_by_window(charges, missing)
        transaction.set_rollback(True)
