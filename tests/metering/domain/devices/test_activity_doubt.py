"""A counter at 0 is contradicted by power with clock, or by utilization; by nothing less."""

import pytest

from metering.domain.devices.figures import Activeness, is_contradicted


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (Activeness(0, power_milliwatts=400_000, clock_megahertz=1_980), True),
        (Activeness(0, power_milliwatts=150_000, clock_megahertz=1_000), True),
        (Activeness(0, power_milliwatts=400_000), True),
        (Activeness(0, utilization_millionths=50_000), True),
        (Activeness(0, power_milliwatts=149_999, clock_megahertz=1_980), False),
        (Activeness(0, power_milliwatts=400_000, clock_megahertz=999), False),
        (Activeness(0, clock_megahertz=1_980), False),
        (Activeness(0, utilization_millionths=49_999), False),
        (Activeness(0), False),
        (Activeness(1, power_milliwatts=400_000, clock_megahertz=1_980), False),
        (Activeness(None, power_milliwatts=400_000, clock_megahertz=1_980), False),
    ],
)
def test_when_a_counter_at_zero_is_contradicted(seen: Activeness, expected: bool) -> None:  # noqa: FBT001 - A table.
    assert is_contradicted(seen) is expected
