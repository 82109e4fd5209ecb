"""What is held is said so that nobody takes for hours of a GPU what is none."""

import pytest

from metering.domain.corrections.exceptions import held_part_text, held_pods_text, held_text


@pytest.mark.parametrize(
    ("held", "details", "words"),
    [
        (0, {"cause": "unknown_resource", "units": 50}, "nothing"),
        (4_444_200, {"cause": "unbound_namespace", "units": 2}, "1,234.50 unit-hours"),
        (3600, {}, "1.00 unit-hours"),
        (180_000, {"cause": "unknown_resource", "units": 50}, "50 for 1.00 h, not in GPUs"),
        (
            40_960 * 1800,
            {"cause": "unknown_resource", "units": 40_960},
            "40,960 for 0.50 h, not in GPUs",
        ),
        (3600, {"cause": "unknown_resource", "units": 0}, "0 for 1.00 h, not in GPUs"),
        (3600, {"cause": "unknown_resource"}, "1.00 unit-hours"),
        (3600, {"cause": "unmapped", "units": 1}, "1.00 unit-hours"),
    ],
)
def test_one_exception_says_what_it_holds(
    held: int, details: dict[str, object], words: str
) -> None:
    assert held_text(held, details=details) == words


@pytest.mark.parametrize(
    ("size", "words"), [("large", "Large 1,038.17"), ("", "Size unknown 1,038.17")]
)
def test_many_say_what_they_hold_of_a_size(size: str, words: str) -> None:
    assert held_part_text(size=size, unit_seconds=3_737_412) == words


def test_what_is_no_gpu_is_reported_by_the_time_of_its_pods() -> None:
    assert held_pods_text(4_481_856) == "1,244.96 h of pods, not in GPUs"
