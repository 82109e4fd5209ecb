"""Sealed usage is charged exactly once, at the price of its hour, or named as lacking one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal

import pytest
from django.db import connection
from pytest_django import DjangoAssertNumQueries

from billing.models import AccrualException, AccruedWindow, BillingPeriod, Charge
from billing.services.accrual import WINDOWS_PER_CALL_MAX, AccrualResult, accrue_windows
from billing.services.pricing.assignments import assign_price_book
from billing.services.pricing.prices import set_price
from metering.models import MeteringWindow
from tenants.models import AuditEntry
from tests.support.billing.ledger import (
    DORA,
    HOUR,
    SMALL_GROUP,
    TICK,
    Use,
    add_usage,
    charged,
    make_book,
    make_ledger,
    make_price,
    make_window,
    seal,
    sealed_window,
)
from tests.support.builders import AT, MONTH_START, make_cluster, make_organization, make_project

NOTHING = AccrualResult(windows=0, complete=0, charges=0, unit_seconds=0, exceptions=0)


def accrue(*windows: MeteringWindow) -> AccrualResult:
    return accrue_windows(window_ids=[w.pk for w in windows], actor=TICK, at=AT)


@pytest.mark.django_db
class TestCharging:
    def test_usage_is_added_up_by_owner_project_size_and_group(self) -> None:
        ledger = make_ledger()
        window = sealed_window(
            ledger.cluster,
            [
                Use(ledger.llm, 3600),
                Use(ledger.llm, 1200),
                Use(ledger.llm, 600, owner="bob"),
                Use(ledger.llm, 7200, units=2, price_group="H100/whole"),
                Use(ledger.vision, 100, owner=""),
            ],
        )

        result = accrue(window)

        assert result == AccrualResult(
            windows=1, complete=1, charges=4, unit_seconds=12700, exceptions=0
        )
        rows = Charge.objects.order_by("project__slug", "price_group", "owner")
        assert [(c.project.slug, c.owner, c.price_group, c.unit_seconds) for c in rows] == [
            ("llm", "bob", SMALL_GROUP, 600),
            ("llm", "carol", SMALL_GROUP, 4800),
            ("llm", "carol", "H100/whole", 7200),
            ("vision", "", SMALL_GROUP, 100),
        ]
        first = rows[0]
        assert (first.unit_price, first.currency, first.tier) == (Decimal(2), "EUR", 0)
        assert (first.organization, first.cluster) == (ledger.organization, ledger.cluster)
        assert (first.window_start, first.created_at) == (MONTH_START, AT)
        assert first.period.label == "2026-10"
        done = AccruedWindow.objects.get()
        assert (done.usage_unit_seconds, done.charged_unit_seconds) == (12700, 12700)
        assert done.is_complete

    def test_the_price_of_the_hour_and_of_the_exact_group_is_pinned(self) -> None:
        ledger = make_ledger()
        set_price(
            price_book=ledger.book,
            size="small",
            unit_price=Decimal("3.00"),
            valid_from=MONTH_START + HOUR,
            actor=DORA,
            at=AT,
        )
        make_price(ledger.book, "9.00", price_group="H100/whole", begin_at=MONTH_START + 2 * HOUR)
        windows = [
            sealed_window(
                ledger.cluster,
                [Use(ledger.llm, 60), Use(ledger.llm, 30, price_group="H100/whole")],
                start_at=MONTH_START + n * HOUR,
            )
            for n in range(3)
        ]

        accrue(*windows)

        first, second, third = (w.pk for w in windows)
        assert charged() == {
            (first, "llm", SMALL_GROUP, "2.00"): 60,
            (first, "llm", "H100/whole", "2.00"): 30,
            (second, "llm", SMALL_GROUP, "3.00"): 60,
            (second, "llm", "H100/whole", "3.00"): 30,
            (third, "llm", SMALL_GROUP, "3.00"): 60,
            (third, "llm", "H100/whole", "9.00"): 30,
        }

    def test_organizations_are_charged_by_their_own_books_and_zones(self) -> None:
        acme = make_ledger("acme", time_zone="Europe/Berlin")
        umbrella = make_ledger("umbrella", billing_currency="USD")
        window = sealed_window(
            acme.cluster,
            [Use(acme.llm), Use(umbrella.llm)],
            start_at=MONTH_START - 2 * HOUR + 744 * HOUR,
        )

        accrue(window)

        rows = Charge.objects.order_by("organization__slug")
        assert [(c.organization.slug, c.currency, c.period.label) for c in rows] == [
            ("acme", "EUR", "2026-10"),
            ("umbrella", "USD", "2026-10"),
        ]

    def test_a_window_without_usage_is_complete(self) -> None:
        ledger = make_ledger()
        window = sealed_window(ledger.cluster, [Use(ledger.llm, 0)])

        result = accrue(window)

        assert (result.windows, result.complete, result.charges) == (1, 1, 0)
        assert AccruedWindow.objects.get().is_complete
        assert not AccrualException.objects.exists()

    def test_an_unsealed_window_is_left_out(self) -> None:
        ledger = make_ledger()
        window = make_window(ledger.cluster)
        add_usage(window, [Use(ledger.llm)])

        assert accrue(window) == NOTHING

        assert not AccruedWindow.objects.exists()
        seal(window)
        assert accrue(window).charges == 1

    def test_accruing_again_changes_nothing(self) -> None:
        ledger = make_ledger()
        window = sealed_window(ledger.cluster, [Use(ledger.llm)])
        accrue(window)
        before = (list(Charge.objects.values()), list(AccruedWindow.objects.values()))
        entries = AuditEntry.objects.count()

        again = accrue_windows(window_ids=[window.pk], actor=TICK, at=AT + HOUR)

        assert again == NOTHING
        assert (list(Charge.objects.values()), list(AccruedWindow.objects.values())) == before
        assert AuditEntry.objects.count() == entries

    def test_use_of_a_month_in_review_is_posted_to_the_next_open_one(self) -> None:
        ledger = make_ledger()
        accrue(sealed_window(ledger.cluster, [Use(ledger.llm)]))
        BillingPeriod.objects.filter(label="2026-10").update(state="review", reviewed_at=AT)

        accrue(sealed_window(ledger.cluster, [Use(ledger.llm)], start_at=MONTH_START + HOUR))

        assert list(
            Charge.objects.order_by("window_start").values_list("period__label", flat=True)
        ) == ["2026-10", "2026-11"]

    def test_one_audit_entry_shows_of_a_call(self) -> None:
        ledger = make_ledger()
        windows = [
            sealed_window(ledger.cluster, [Use(ledger.llm)], start_at=MONTH_START + n * HOUR)
            for n in range(2)
        ]

        accrue(*windows)

        entry = AuditEntry.objects.get(action="billing:charge:accrue")
        assert entry.facts == {
            "windows": 2,
            "complete": 2,
            "charges": 2,
            "unit_seconds": 7200,
            "exceptions": 0,
        }

    def test_too_many_windows_for_one_transaction_are_a_mistake(self) -> None:
        with pytest.raises(ValueError, match="At most"):
            accrue_windows(window_ids=list(range(WINDOWS_PER_CALL_MAX + 1)), actor=TICK, at=AT)


@pytest.mark.django_db
class TestMissingPrices:
    def test_use_without_a_price_is_an_exception_and_never_free(self) -> None:
        ledger = make_ledger()
        window = sealed_window(
            ledger.cluster,
            [Use(ledger.llm, 60), Use(ledger.llm, 500, size="large", price_group="H100/whole")],
        )

        result = accrue(window)

        assert (result.charges, result.exceptions, result.complete) == (1, 1, 0)
        found = AccrualException.objects.get()
        assert (found.code, found.unit_seconds, found.project) == ("no_price", 500, ledger.llm)
        assert found.summary == (
            "Price book acme has no price for large units of H100/whole at that hour."
        )
        assert found.remedy.startswith("Set a price")
        state = AccruedWindow.objects.get()
        assert (state.usage_unit_seconds, state.charged_unit_seconds) == (560, 60)
        assert not state.is_complete

    def test_an_organization_without_a_book_is_an_exception(self) -> None:
        organization = make_organization("new")
        project = make_project(organization)
        window = sealed_window(make_cluster(), [Use(project, 60)])

        accrue(window)

        found = AccrualException.objects.get()
        assert (found.code, found.summary) == (
            "no_price_book",
            "New has no price book at that hour.",
        )
        assert not Charge.objects.exists()

    def test_a_price_that_comes_later_charges_the_rest_and_resolves_the_exception(self) -> None:
        ledger = make_ledger()
        window = sealed_window(
            ledger.cluster, [Use(ledger.llm, 60), Use(ledger.llm, 500, size="large")]
        )
        accrue(window)
        kept = Charge.objects.get().pk

        assert accrue(window) == NOTHING
        set_price(
            price_book=ledger.book,
            size="large",
            unit_price=Decimal("8.00"),
            valid_from=MONTH_START,
            actor=DORA,
            at=AT,
        )
        result = accrue_windows(window_ids=[window.pk], actor=TICK, at=AT + HOUR)

        assert (result.charges, result.unit_seconds, result.complete) == (1, 500, 1)
        assert Charge.objects.filter(pk=kept).exists()
        assert AccrualException.objects.get().resolved_at == AT + HOUR
        assert AccruedWindow.objects.get().is_complete

    def test_the_remedy_still_works_when_a_later_price_is_in_use(self) -> None:
        ledger = make_ledger()
        late = MONTH_START + HOUR
        large = {"price_book": ledger.book, "size": "large", "actor": DORA, "at": AT}
        set_price(**large, unit_price=Decimal("9.00"), valid_from=late)  # type: ignore[arg-type]
        early = sealed_window(ledger.cluster, [Use(ledger.llm, 3600, size="large")])
        later = sealed_window(ledger.cluster, [Use(ledger.llm, 3600, size="large")], start_at=late)
        accrue(early, later)
        assert AccrualException.objects.get().remedy.endswith("from that hour on.")

        set_price(**large, unit_price=Decimal("8.00"), valid_from=MONTH_START)  # type: ignore[arg-type]
        result = accrue(early, later)

        assert (result.charges, result.unit_seconds) == (1, 3600)
        assert list(
            Charge.objects.order_by("window_start").values_list("window_start", "unit_price")
        ) == [(MONTH_START, Decimal(8)), (late, Decimal(9))]
        assert not AccrualException.objects.filter(resolved_at=None).exists()

    def test_the_remedy_still_works_when_a_later_book_is_in_use(self) -> None:
        ledger = make_ledger()
        before = MONTH_START - HOUR
        book = make_book("before")
        make_price(book, "5.00", begin_at=before)
        early = sealed_window(ledger.cluster, [Use(ledger.llm, 3600)], start_at=before)
        later = sealed_window(ledger.cluster, [Use(ledger.llm, 3600)])
        accrue(early, later)
        assert AccrualException.objects.get().code == "no_price_book"

        assign_price_book(
            organization=ledger.organization, price_book=book, valid_from=before, actor=DORA, at=AT
        )
        accrue(early, later)

        assert list(
            Charge.objects.order_by("window_start").values_list("window_start", "unit_price")
        ) == [(before, Decimal(5)), (MONTH_START, Decimal(2))]
        assert not AccrualException.objects.filter(resolved_at=None).exists()

    def test_a_book_without_the_price_changes_the_cause(self) -> None:
        organization = make_organization("new")
        project = make_project(organization)
        window = sealed_window(make_cluster(), [Use(project, 60)])
        accrue(window)

        assign_price_book(
            organization=organization,
            price_book=make_book("empty"),
            valid_from=MONTH_START,
            actor=DORA,
            at=AT,
        )
        accrue(window)

        found = AccrualException.objects.get()
        assert (found.code, found.resolved_at) == ("no_price", None)


@pytest.mark.django_db
@pytest.mark.parametrize(("windows", "pods", "prices"), [(1, 1, 0), (4, 30, 12)])
def test_the_number_of_statements_is_constant(
    windows: int, pods: int, prices: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    ledger = make_ledger()
    projects = [make_project(ledger.organization, f"project-{n}") for n in range(pods)]
    for number in range(prices):
        make_price(ledger.book, price_group=f"G{number}/whole")
    rows = [
        sealed_window(
            ledger.cluster,
            [
                Use(project, owner=f"user-{n}", price_group=f"G{n % 15}/whole")
                for n, project in enumerate(projects)
            ],
            start_at=MONTH_START + hour * HOUR,
        )
        for hour in range(windows)
    ]

    with django_assert_num_queries(26):
        accrue(*rows)

    assert Charge.objects.count() == windows * pods


@contextmanager
def killed_after(statements: int) -> Iterator[Callable[[], int]]:
    """Let the connection die before a statement; yield how many were let through."""
    seen = 0

    def wrapper(execute: Callable[..., object], *statement: object) -> object:
        nonlocal seen
        if seen == statements:
            raise ConnectionResetError("killed")
        seen += 1
        return execute(*statement)

    with connection.execute_wrapper(wrapper):
        yield lambda: seen


@pytest.mark.usefixtures("committed_db")
def test_a_worker_killed_between_statements_leaves_nothing() -> None:
    ledger = make_ledger()
    window = sealed_window(ledger.cluster, [Use(ledger.llm), Use(ledger.llm, size="large")])

    for statements in range(40):
        try:
            with killed_after(statements):
                result = accrue(window)
            break
        except ConnectionResetError:
            assert not Charge.objects.exists()
            assert not AccruedWindow.objects.exists()
            assert not AccrualException.objects.exists()
            assert not AuditEntry.objects.exists()

    assert statements > 10
    assert (result.charges, result.exceptions) == (1, 1)
