"""Many targets that left within a day: all are judged, by a bounded number of queries."""

from tests.support.metering.prometheus import ASKED, FIRST, KSM, last, observe, sound_world


def test_all_targets_that_left_within_a_day_are_judged_by_few_queries() -> None:
    world = sound_world()
    left = {f"old-{number:02d}": FIRST - 800 * number for number in range(100)}
    world.targets = [
        last("", {**KSM, "instance": name}, str(at), ASKED) for name, at in left.items()
    ]
    world.handovers = [last("", {"instance": "old-99", "answer": "0 pods"}, "10")]

    observed = observe(world)

    assert [one.name for one in observed.targets if one.is_missed] == []
    asked = [one["query"] for one in world.asked if " offset " in one["query"]]
    assert len(asked) == 7

    world.handovers = [
        last("", {"instance": "old-99", "answer": f"0 {what}"}, "10")
        for what in ("pods", "pods_placed")
    ]

    observed = observe(world)

    assert [one.name for one in observed.targets if one.is_missed] == ["old-99"]
