"""The order in which processes share the tests: the longest come first, and none is lost."""

import pytest

from tests.support.sampling import spread


def test_each_process_begins_with_some_of_the_longest() -> None:
    order = spread([0, 0, 5, 9, 0, 0, 7, 0, 0], processes=3)

    assert order == [3, 0, 1, 6, 4, 5, 2, 7, 8]


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
@pytest.mark.parametrize("seconds", [[], [4], [0], [4, 5, 6, 7], [0] * 7, [3, 0, 4, 0, 5]])
def test_no_test_is_lost_or_run_twice(seconds: list[int], processes: int) -> None:
    assert sorted(spread(seconds, processes=processes)) == list(range(len(seconds)))
