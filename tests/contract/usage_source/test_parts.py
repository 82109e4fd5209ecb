"""A window observed in parts shows what one observed at once does, with every source."""

from dataclasses import replace

import pytest

from metering.protocols.parts import DividingSource
from tests.contract.usage_source.conftest import Seen, asked, target_of
from tests.support.usage_source.parts import observe_in_parts


@pytest.mark.parametrize("parts", [2, 16])
@pytest.mark.parametrize("cluster", ["hopper", "ampere"])
@pytest.mark.parametrize("hour", [0, 2, 4])
def test_parts_show_what_the_whole_shows(seen: Seen, cluster: str, hour: int, parts: int) -> None:
    target = target_of(seen.scenario.cluster(cluster), seen.url)
    assert isinstance(seen.source, DividingSource)

    found = observe_in_parts(seen.source, target, **asked(hour, 1), parts=parts)

    whole = replace(seen.observe(cluster, hour), evidence=())
    assert whole.pods
    assert found == whole


@pytest.mark.parametrize("cluster", ["hopper", "ampere"])
def test_pods_are_counted_before_a_window_is_divided(prometheus: Seen, cluster: str) -> None:
    target = target_of(prometheus.scenario.cluster(cluster), prometheus.url)
    assert isinstance(prometheus.source, DividingSource)
    span = asked(3, 1)

    counted = prometheus.source.count_pods(target, as_of=span["as_of"])

    late = [
        one for one in prometheus.observe(cluster, 3).pods if one.last_seen_at >= span["end_at"]
    ]
    assert 0 < counted <= len(late) + 5
