"""Durations and shares as people read them; what was not measured is a dash."""

import pytest

from metering.domain.figures import duration_text, ratio_text


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "-"),
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min 0 s"),
        (3_599, "59 min 59 s"),
        (3_600, "1 h 0 min"),
        (86_399, "23 h 59 min"),
        (86_400, "1 d 0 h"),
        (3_339_960, "38 d 15 h"),
    ],
)
def test_a_duration_is_reported_in_its_two_largest_parts(seconds: int | None, words: str) -> None:
    assert duration_text(seconds) == words


@pytest.mark.parametrize(
    ("part", "whole", "words"),
    [
        (None, 10, "-"),
        (1, None, "-"),
        (0, 0, "-"),
        (0, 10, "0.0\N{NO-BREAK SPACE}%"),
        (2, 3, "66.7\N{NO-BREAK SPACE}%"),
    ],
)
def test_a_share_of_nothing_known_is_a_dash(
    part: int | None, whole: int | None, words: str
) -> None:
    assert ratio_text(part, whole) == words
