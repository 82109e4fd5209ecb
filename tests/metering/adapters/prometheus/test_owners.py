"""Owners: the user label, however a cluster's settings spell it."""

import pytest

from metering.adapters.prometheus.nodes import owner_of


@pytest.mark.parametrize(
    ("user_label", "expected"),
    [
        ("billing_acme_io_user", "alice"),
        ("billing.acme.io/user", "alice"),
        ("label_billing_acme_io_user", "alice"),
        ("missing", ""),
        ("", ""),
    ],
)
def test_the_user_label_may_be_spelled_three_ways(user_label: str, expected: str) -> None:
    assert owner_of({"label_billing_acme_io_user": "alice"}, user_label) == expected
