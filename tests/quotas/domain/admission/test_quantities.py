"""Quantities as Kubernetes spells them, in whole devices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity

from quotas.domain.admission.pod_fields import UNITS_MAX, whole_units


@pytest.mark.parametrize(
    ("value", "units"),
    [
        ("2", 2),
        ("0", 0),
        (3, 3),
        ("1e0", 1),
        ("1E3", 1_000),
        ("10e-1", 1),
        ("2k", 2_000),
        ("1Ki", 1_024),
        ("1000m", 1),
        ("2.0", 2),
        ("+4", 4),
        ("2.", 2),
        ("1000000", UNITS_MAX),
    ],
)
def test_whole_devices_are_read_in_every_spelling(value: object, units: int) -> None:
    assert whole_units(value) == units


@pytest.mark.parametrize(
    "value",
    [
        "500m",
        "0.5",
        ".5",
        "-1",
        "1000001",
        1_000_002,
        "1E",
        "9Ei",
        "1e19",
        "1e9999",
        "",
        " 1",
        "1 ",
        "NaN",
        "Infinity",
        "one",
        "1kk",
        "1_000",
        "1" * 33,
        "٣",
        True,
        None,
        [],
        {},
    ],
)
def test_what_no_pod_can_ask_is_none(value: object) -> None:
    assert whole_units(value) is None


@given(st.text(alphabet="0123456789.+-eEkmMGiKnuTP", max_size=12))
def test_it_agrees_with_the_official_client(text: str) -> None:
    try:
        reported = parse_quantity(text)  # type: ignore[no-untyped-call]
    except ValueError:
        # The official client knows no "n" or "u" of its own accord in every version.
        return
    expected = None
    if (
        reported.is_finite()
        and 0 <= reported <= UNITS_MAX
        and reported == reported.to_integral_value()
    ):
        expected = int(reported)

    assert whole_units(text) in {expected, None}


@given(st.one_of(st.integers(), st.text(), st.binary(), st.none(), st.lists(st.integers())))
def test_nothing_makes_it_fail(value: object) -> None:
    units = whole_units(value)

    assert units is None or 0 <= units <= UNITS_MAX
