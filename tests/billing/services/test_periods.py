"""Periods are opened once, from the zone, and keep their hours."""

from datetime import UTC, datetime

import pytest
from pytest_django import DjangoAssertNumQueries

from billing.domain.errors import PeriodLabelInvalidError
from billing.domain.period import Month
from billing.models import BillingPeriod
from billing.services.periods import (
    ensure_months,
    ensure_periods,
    open_current_periods,
    open_period,
)
from tenants.models import AuditEntry, Organization
from tests.support.billing.ledger import DORA, TICK
from tests.support.builders import AT, MONTH_END, MONTH_START, make_organization

pytestmark = pytest.mark.django_db


def test_a_period_is_the_month_of_the_organizations_zone() -> None:
    organization = make_organization(time_zone="Europe/Berlin")

    period = open_period(organization=organization, label="2026-10", actor=DORA, at=AT)

    assert period.hours.lower == datetime(2026, 9, 30, 22, tzinfo=UTC)
    assert period.hours.upper == datetime(2026, 10, 31, 23, tzinfo=UTC)
    assert (period.state, period.created_at) == ("open", AT)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.organization_id) == ("billing:period:open", organization.pk)


def test_opening_again_changes_nothing() -> None:
    organization = make_organization()
    first = open_period(organization=organization, label="2026-10", actor=DORA, at=AT)

    again = open_period(organization=organization, label="2026-10", actor=DORA, at=MONTH_END)

    assert (again.pk, again.created_at) == (first.pk, AT)
    assert AuditEntry.objects.count() == 1


def test_a_label_that_names_no_month_opens_nothing() -> None:
    with pytest.raises(PeriodLabelInvalidError):
        open_period(organization=make_organization(), label="October", actor=DORA, at=AT)

    assert not BillingPeriod.objects.exists()


def test_after_a_change_of_zone_the_next_month_joins_the_last() -> None:
    organization = make_organization(time_zone="UTC")
    open_period(organization=organization, label="2026-10", actor=DORA, at=AT)
    Organization.objects.filter(pk=organization.pk).update(time_zone="America/New_York")

    later = open_period(organization=organization, label="2026-11", actor=DORA, at=AT)
    earlier = open_period(organization=organization, label="2026-09", actor=DORA, at=AT)

    assert later.hours.lower == MONTH_END
    assert later.hours.upper == datetime(2026, 12, 1, 5, tzinfo=UTC)
    assert earlier.hours.upper == MONTH_START


def test_every_month_between_use_and_now_is_opened() -> None:
    organization = make_organization()
    used = {organization.pk: (datetime(2026, 7, 31, 23, tzinfo=UTC), MONTH_START)}

    assert ensure_periods(used, actor=TICK, at=AT) == 5
    assert ensure_periods(used, actor=TICK, at=AT) == 0

    labels = BillingPeriod.objects.order_by("label").values_list("label", flat=True)
    assert list(labels) == ["2026-07", "2026-08", "2026-09", "2026-10", "2026-11"]
    assert AuditEntry.objects.count() == 1


def test_a_month_between_two_stored_ones_is_opened() -> None:
    organization = make_organization(time_zone="America/New_York")
    for label in ("2026-09", "2026-11"):
        open_period(organization=organization, label=label, actor=DORA, at=AT)
    used = {organization.pk: (datetime(2026, 9, 30, 23, tzinfo=UTC),) * 2}

    assert ensure_periods(used, actor=TICK, at=AT) == 1

    assert BillingPeriod.objects.filter(label="2026-10").exists()


def test_hours_that_periods_cover_are_asked_for_in_one_statement(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    used = {
        make_organization(f"organization-{number}").pk: (MONTH_START, MONTH_END)
        for number in range(3)
    }
    assert ensure_periods(used, actor=TICK, at=AT) == 6

    with django_assert_num_queries(1):
        assert ensure_periods(used, actor=TICK, at=AT) == 0


def test_use_years_from_now_is_a_mistake() -> None:
    organization = make_organization()

    with pytest.raises(ValueError, match="longer than 240 months"):
        ensure_months({organization.pk: (Month(2000, 1), Month(2026, 1))}, actor=TICK, at=AT)

    assert not BillingPeriod.objects.exists()


def test_this_month_is_opened_for_every_active_organization() -> None:
    make_organization("acme")
    make_organization("umbrella", time_zone="Asia/Tokyo")
    make_organization("gone", state="closed")

    assert open_current_periods(actor=TICK, at=AT) == 2

    slugs = BillingPeriod.objects.values_list("organization__slug", "label")
    assert set(slugs) == {("acme", "2026-11"), ("umbrella", "2026-11")}


@pytest.mark.parametrize("organizations", [1, 12])
def test_the_number_of_statements_does_not_grow_with_organizations(
    organizations: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(organizations):
        make_organization(f"organization-{number}")

    with django_assert_num_queries(9):
        open_current_periods(actor=TICK, at=AT)
