"""Which of many like cases `make test` runs (`make soak` runs the others), and in which order."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import pytest


def sampled(cases: Iterable[Any], *, every: int) -> list[Any]:
    """Return cases for `parametrize`: of `every` cases the first is in `make test`.

    Args:
        cases: A value, or a tuple for several names.
        every: How many cases one stands for; 2 or more.
    """
    return [case if index % every == 0 else soaked(case) for index, case in enumerate(cases)]


def soaked(case: Any) -> Any:  # noqa: ANN401 - A value of any parameter, and pytest's type of it.
    """Return a case that `make soak` runs, and `make test` does not."""
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.soak)


def spread(seconds: Sequence[int], *, processes: int) -> list[int]:
    """Return the order of tests in which each process begins with some of the longest.

    xdist gives each process an equal piece of the list, and when it has none left, half of what
    another has left, but never its next test: a long one behind a long one is run by no other.

    Args:
        seconds: How long each test takes; 0 for all that are not long.
        processes: How many share the tests.
    """
    longest = sorted((i for i, long in enumerate(seconds) if long), key=lambda i: -seconds[i])
    others = iter([i for i, long in enumerate(seconds) if not long])
    order: list[int] = []
    left = len(seconds)
    for number in range(processes):
        size = left // (processes - number)
        left -= size
        begun = longest[number::processes]
        order += [*begun, *islice(others, max(0, size - len(begun)))]
    return order
