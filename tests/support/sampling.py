"""Which of many like cases `make test` runs; `make soak` runs the others."""

from collections.abc import Iterable
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
