"""What waste is judged from: who holds what, and what the devices of each did, figure by figure."""

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from metering.domain.catalogue.units import SharingMode
from metering.domain.efficiency.rules import Work
from metering.domain.efficiency.waste import Spell, Tenure
from metering.models import MeteringWindow, PodAllocation
from metering.selectors.efficiency import (
    HeldAllocation,
    JudgedWindow,
    held_since,
    holders_at_end,
    spells_before_end,
)
from tests.support.builders import make_cluster
from tests.support.metering.waste_world import (
    DAY,
    H100,
    HOUR,
    WasteWorld,
    add_late,
    correct,
    make_waste_world,
    seal,
)
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def world() -> WasteWorld:
    """A project that holds one whole H100 for a day."""
    made = make_waste_world()
    made.hold()
    return made


@pytest.fixture
def trainer(world: WasteWorld) -> PodAllocation:
    """The pod on it."""
    return world.held[0]


def judged(window: MeteringWindow) -> JudgedWindow:
    return JudgedWindow(window.pk, window.cluster_id, window.start_at)


def spells(window: MeteringWindow, *, hours: int) -> dict[str, Spell]:
    """Return the spells by pod uid."""
    holders = holders_at_end(judged(window))
    found = spells_before_end(judged(window), holders=holders, hours=hours)
    return {uid: spell for (uid, _), spell in found.items()}


def busy(ratio: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - Columns.
    return {"activity": Decimal(ratio), **fields}


# ---------------------------------------------------------------- holders


def test_a_holder_is_reported_with_all_that_judges_it(world: WasteWorld) -> None:
    world.held.clear()
    begin_at = DAY - timedelta(days=2)
    pod = world.hold(
        "slice-0",
        begin_at=begin_at,
        resource="nvidia.com/mig-3g.40gb",
        units=2,
        size="medium",
        price_group="H100/3g.40gb",
        sharing_mode="mig",
        share_numerator=3,
        share_denominator=7,
        controller="Notebook/carol",
    )
    window = world.hour(0)

    assert holders_at_end(judged(window)) == (
        HeldAllocation(
            organization_id=world.organization.pk,
            project_id=world.project.pk,
            owner="carol",
            namespace="llm",
            pod_name="slice-0",
            pod_uid=pod.pod_uid,
            resource="nvidia.com/mig-3g.40gb",
            tenure=Tenure(
                begin_at=begin_at,
                started_at=begin_at,
                is_start_known=True,
                units=2,
                size="medium",
                price_group="H100/3g.40gb",
                sharing_mode=SharingMode.MIG,
                product=H100,
                share=Fraction(3, 7),
                work=Work.NOTEBOOK,
            ),
        ),
    )


@pytest.mark.parametrize(("delta", "count"), [(None, 0), (-3600, 0), (-3599, 1), (-1, 1)], ids=str)
def test_who_has_nothing_left_holds_nothing(
    world: WasteWorld, trainer: PodAllocation, delta: int | None, count: int
) -> None:
    window = world.hour(0)
    correct(window, trainer, delta)

    assert len(holders_at_end(judged(window))) == count


def test_what_was_taken_back_and_added_again_is_held(
    world: WasteWorld, trainer: PodAllocation
) -> None:
    window = world.hour(0)
    correct(window, trainer, None)
    correct(window, trainer, 3600)

    assert len(holders_at_end(judged(window))) == 1


def test_an_end_in_the_allocation_ledger_leaves_no_holder(
    world: WasteWorld, trainer: PodAllocation
) -> None:
    window = world.hour(0)
    PodAllocation.objects.filter(pk=trainer.pk).update(end_at=DAY + HOUR, end_kind="exact")

    assert holders_at_end(judged(window)) == ()


# ---------------------------------------------------------------- spells


def test_a_spell_shows_means_peaks_and_percentiles_of_hours(
    world: WasteWorld, trainer: PodAllocation
) -> None:
    for hour in range(20):
        window = world.window(hour)
        world.use(window, trainer)
        world.measure(
            window,
            trainer,
            Decimal(hour) / 100,
            memory_used_peak_mebibytes=1_000 + hour,
            power_mean_milliwatts=100_000 + hour,
        )
        seal(window)

    found = spells(window, hours=20)[trainer.pod_uid]

    assert found == Spell(
        covered_seconds=20 * 3600,
        activity=Decimal("0.095"),
        activity_highest=Decimal("0.19"),
        activity_p95=Decimal("0.18"),
        memory_peak_mebibytes=1_019,
        memory_lowest_mebibytes=1_000,
        memory_p95_mebibytes=1_018,
        memory_total_mebibytes=81_559,
        power_milliwatts=100_019,
        devices=(Decimal("0.095"),),
    )
    assert spells(window, hours=2)[trainer.pod_uid].activity == Decimal("0.185")


def test_devices_are_distinguished_by_gpu_and_instance(world: WasteWorld) -> None:
    world.held.clear()
    pod = world.hold("trio-0", units=3, sharing_mode="mig")
    window = world.window(0)
    world.use(window, pod)
    world.measure(window, pod, **busy("0.6", uuid="GPU-a", instance_id="7"))
    world.measure(window, pod, **busy("0.3", uuid="GPU-a", instance_id="8"))
    world.measure(window, pod, **busy("0.9", uuid="GPU-b", memory_total_mebibytes=40_000))
    seal(window)

    found = spells(window, hours=1)[pod.pod_uid]

    assert found.devices == (Decimal("0.3"), Decimal("0.6"), Decimal("0.9"))
    assert (found.activity, found.covered_seconds) == (Decimal("0.6"), 3 * 3600)
    assert found.memory_total_mebibytes == 40_000


def test_a_device_is_one_device_after_its_node_was_renamed(
    world: WasteWorld, trainer: PodAllocation
) -> None:
    for hour, (activity, node) in enumerate([("0.2", "node-1"), ("0.6", "node-1-new")]):
        window = world.window(hour)
        world.use(window, trainer)
        world.measure(window, trainer, **busy(activity, node=node))
        seal(window)

    found = spells(window, hours=2)[trainer.pod_uid]

    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM metering_devicefact")
        assert cursor.fetchone() == (2,)
    assert (found.devices, found.covered_seconds) == ((Decimal("0.4"),), 2 * 3600)


def test_a_figure_weighs_as_much_as_was_sampled_of_it(
    world: WasteWorld, trainer: PodAllocation
) -> None:
    half = DAY + HOUR / 2
    window = world.window(0)
    world.use(window, trainer)
    world.measure(window, trainer, **busy("0.9", seconds=1800, end_at=half))
    world.measure(
        window,
        trainer,
        **busy("0.1", seconds=1800, begin_at=half, busy_coverage=Decimal("0.33333")),
    )
    seal(window)

    found = spells(window, hours=1)[trainer.pod_uid]

    assert found.covered_seconds == 2399
    assert found.activity == Decimal("0.700002")
    assert found.devices == (Decimal("0.700002"),)


def test_nothing_sampled_is_no_spell(world: WasteWorld) -> None:
    window = world.hour(0, busy_coverage=Decimal(0))

    assert spells(window, hours=1) == {}


def test_a_pod_that_came_later_has_no_spell(world: WasteWorld) -> None:
    world.held.clear()
    late = world.hold("late-0", begin_at=DAY + timedelta(seconds=1))
    exact = world.hold("exact-0", begin_at=DAY)
    window = world.hour(0)

    assert set(spells(window, hours=1)) == {exact.pod_uid}
    assert late.pod_uid in {holder.pod_uid for holder in holders_at_end(judged(window))}


def test_another_clusters_pod_of_the_same_uid_is_not_looked_at(
    world: WasteWorld, trainer: PodAllocation
) -> None:
    other = make_waste_world("umbrella", make_cluster("ampere"))
    other.hold()
    other.hour(0, Decimal("0.9"))
    window = world.hour(0, Decimal("0.2"))

    found = spells(window, hours=1)[trainer.pod_uid]

    assert (found.covered_seconds, found.activity) == (3600, Decimal("0.2"))


def test_hours_before_and_after_are_not_looked_at(
    world: WasteWorld, trainer: PodAllocation
) -> None:
    world.hour(0, Decimal("0.9"))
    middle = world.hour(1, Decimal("0.2"))
    world.hour(2, Decimal("0.9"))

    assert spells(middle, hours=1)[trainer.pod_uid].activity_highest == Decimal("0.2")
    assert spells(middle, hours=2)[trainer.pod_uid].activity_highest == Decimal("0.9")


# ---------------------------------------------------------------- what was held


def test_what_was_held_is_the_sum_over_hours_and_revisions(
    world: WasteWorld, trainer: PodAllocation
) -> None:
    first, second, last = (world.hour(hour) for hour in range(3))
    late = world.hold("late-0")
    correct(first, trainer, None)
    correct(second, trainer, -100)
    add_late(second, late, 50)
    keys = [(trainer.pod_uid, trainer.resource), (late.pod_uid, late.resource)]

    assert held_since(judged(last), since=dict.fromkeys(keys, DAY)) == {
        keys[0]: 0 + 3500 + 3600,
        keys[1]: 50,
    }
    assert held_since(judged(second), since={keys[0]: DAY + HOUR}) == {keys[0]: 3500}


def test_each_holder_is_asked_from_its_own_time(world: WasteWorld) -> None:
    other = world.hold("other-0")
    windows = [world.hour(hour) for hour in range(4)]
    keys = [(pod.pod_uid, pod.resource) for pod in world.held]

    with CaptureQueriesContext(connection) as captured:
        held = held_since(judged(windows[-1]), since={keys[0]: DAY + HOUR, keys[1]: DAY + 3 * HOUR})

    assert held == {keys[0]: 3 * 3600, keys[1]: 3600}
    assert other.pod_uid == keys[1][0]
    assert len(captured) == 1


def test_nobody_asked_is_no_statement(world: WasteWorld) -> None:
    window = world.hour(0)

    with CaptureQueriesContext(connection) as captured:
        assert held_since(judged(window), since={}) == {}

    assert len(captured) == 0
