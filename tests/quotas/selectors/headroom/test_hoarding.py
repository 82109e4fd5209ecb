"""Hoarding: quota a project keeps from others and never uses."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from metering.domain.catalogue.units import GPUSize
from metering.domain.efficiency.rules import WasteThresholds
from metering.selectors.collection.usage import peak_units
from quotas.models import QuotaLimit
from quotas.selectors.headroom.forecast import HoardedQuota, hoarded_quotas
from tenants.models import Project
from tests.support.metering.waste_world import DAY, HOUR, WasteWorld, make_waste_world, seal
from tests.support.quotas.builders import make_limit
from tests.support.quotas.fair_use import give
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
HOURS = 20
END = DAY + HOURS * HOUR


@shared_rows
def world() -> WasteWorld:
    """A project that may hold ten large units, and used four in two of twenty hours."""
    made = make_waste_world()
    pod = made.hold(units=4)
    for hour in (3, 5):
        window = made.window(hour)
        made.use(window, pod)
        seal(window)
    make_limit(made.organization, units=20)
    make_limit(made.organization, made.project, units=10)
    QuotaLimit.objects.update(changed_at=DAY)
    return made


def hoarded(**thresholds: Any) -> tuple[HoardedQuota, ...]:  # noqa: ANN401 - Of several types.
    given = replace(WasteThresholds(hoarding_hours=HOURS), **thresholds)
    return hoarded_quotas(QuotaLimit.objects.all(), at=END, thresholds=given)


def test_the_busiest_twentieth_of_the_hours_is_left_out(world: WasteWorld) -> None:
    key = (world.project.pk, GPUSize.LARGE)

    assert peak_units(before=END, hours=HOURS, percent=95) == {key: 4}
    assert peak_units(before=END, hours=HOURS, percent=90) == {}
    assert peak_units(before=DAY + 4 * HOUR, hours=4, percent=100) == {key: 4}
    assert peak_units(before=DAY + 3 * HOUR, hours=3, percent=100) == {}


def test_part_of_an_hour_is_rounded_up_to_a_unit(world: WasteWorld) -> None:
    window = world.window(7)
    world.use(window, world.held[0], until=901)
    seal(window)

    assert peak_units(before=DAY + 8 * HOUR, hours=1, percent=100) == {
        (world.project.pk, GPUSize.LARGE): 2
    }


@pytest.mark.usefixtures("world")
def test_a_limit_far_above_its_use_is_reported() -> None:
    assert hoarded() == (
        HoardedQuota(
            organization="acme",
            project="llm",
            project_id=Project.objects.get().pk,
            size=GPUSize.LARGE,
            limit_units=10,
            peak_units=4,
        ),
    )
    assert hoarded()[0].spare_units == 6


@pytest.mark.usefixtures("world")
def test_a_share_of_spare_units_is_no_hoarding() -> None:
    assert hoarded(hoarding_ratio=Decimal("0.6")) == ()
    assert len(hoarded(hoarding_ratio=Decimal("0.59"))) == 1


@pytest.mark.usefixtures("world")
def test_a_new_limit_says_nothing_yet() -> None:
    QuotaLimit.objects.update(changed_at=DAY + timedelta(seconds=1))

    assert hoarded() == ()


def test_most_spare_units_stand_first_and_nothing_allowed_is_nothing_kept(
    world: WasteWorld,
) -> None:
    make_limit(world.organization, world.project, size="small", units=7)
    make_limit(world.organization, world.project, size="medium", units=0)
    QuotaLimit.objects.update(changed_at=DAY)

    assert [(one.size.value, one.spare_units) for one in hoarded()] == [("small", 7), ("large", 6)]


@pytest.mark.usefixtures("world")
def test_what_was_lent_away_is_not_kept_from_anybody() -> None:
    limit = QuotaLimit.objects.get(scope="project")
    give(limit, -3, begin_at=END - HOUR, end_at=END + HOUR)

    assert [(one.limit_units, one.spare_units) for one in hoarded()] == [(7, 3)]


def test_a_limit_of_one_model_has_no_peaks_to_be_judged_by(world: WasteWorld) -> None:
    narrow = make_limit(world.organization, world.project, size="small", units=7)
    QuotaLimit.objects.filter(pk=narrow.pk).update(model_group="H100", changed_at=DAY)

    assert [one.size.value for one in hoarded()] == ["large"]
