"""Whether a saving is known is one rule, in Python and in SQL."""

from itertools import product

import pytest

from metering.models import WasteFinding
from metering.selectors.efficiency import SAVING_UNKNOWN, WASTED_ORDER
from tests.support.billing.wasteful import find
from tests.support.metering.waste_world import make_waste_world

pytestmark = pytest.mark.django_db


def test_only_an_unchanged_suggestion_without_a_memory_figure_is_unknown() -> None:
    world = make_waste_world()
    for units, wasted, memory in product((0, 1), (0, 7), (None, 0, 5)):
        find(
            world,
            f"pod-{units}-{wasted}-{memory}",
            suggested_units=units,
            wasted_unit_seconds=wasted,
            memory_peak_mebibytes=memory,
        )

    unknown = set(WasteFinding.objects.filter(SAVING_UNKNOWN).values_list("pod_name", flat=True))
    rows = list(WasteFinding.objects.all())

    assert unknown == {"pod-1-0-None"}
    assert {row.pod_name for row in rows if not row.is_saving_known} == unknown
    assert {row.pod_name for row in rows if row.known_wasted_unit_seconds is None} == unknown
    assert {row.known_wasted_unit_seconds for row in rows} == {None, 0, 7}
    last = WasteFinding.objects.order_by(WASTED_ORDER.desc()).last()
    assert last is not None
    assert last.pod_name == "pod-1-0-None"
