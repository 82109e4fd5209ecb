"""What waits for a person, from facts alone."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from billing.selectors.costs import UnpricedFact
from config.dashboard.context import waiting_table
from metering.selectors.collection.windows import ClusterProgress
from metering.selectors.corrections.exceptions import ExceptionTotal

ACME = UUID(int=1)
CLUSTER = UUID(int=2)
FEBRUARY = datetime(2028, 2, 1, tzinfo=UTC)


def test_hours_that_wait_are_added_over_clusters_and_usage_without_price_is_named() -> None:
    progress = ClusterProgress(CLUSTER, 744, 740, 2, 0, None, FEBRUARY, None)

    table = waiting_table(
        [],
        begin_at=FEBRUARY,
        progress=[progress, progress],
        unpriced=[UnpricedFact(ACME, "acme", 3, {"large": 7_200, "small": 5_400})],
        drafts=0,
        requests=0,
    )

    assert [[cell["text"] for cell in row] for row in table["rows"]] == [
        ["Hours that stayed blind", "accept or waive each", "4"],
        ["No price: acme", "1.5 small, 2.0 large unit-hours", "3"],
    ]
    assert "start_at_from=2028-02-01&start_at_to=2028-02-29" in table["rows"][0][0]["link"]
    assert f"organization__id__exact={ACME}" in table["rows"][1][0]["link"]


def test_many_organizations_without_a_price_are_one_row() -> None:
    table = waiting_table(
        [],
        begin_at=FEBRUARY,
        progress=[],
        unpriced=[UnpricedFact(ACME, f"tenant-{n}", 3, {"large": 60}) for n in range(6)],
        drafts=0,
        requests=0,
    )

    (row,) = table["rows"]
    assert [one["text"] for one in row] == ["No price", "6 organizations", "18"]
    assert row[0]["link"] == "/admin/billing/accrualexception/?resolved_at__isempty=1"


@pytest.mark.parametrize(
    ("kind", "held", "words"),
    [
        ("unbound_namespace", 3_600, "use is held"),
        ("unbound_namespace", 0, "nothing held"),
        ("unknown_device", 3_600, "held, in units no rule knows"),
    ],
)
def test_what_a_kind_of_exception_holds_is_no_sum_over_sizes(
    kind: str, held: int, words: str
) -> None:
    table = waiting_table(
        [ExceptionTotal(kind, 2, held)],
        begin_at=FEBRUARY,
        progress=[],
        unpriced=[],
        drafts=0,
        requests=0,
    )

    (row,) = table["rows"]
    assert [one["text"] for one in row] == [f"Exception: {kind.replace('_', ' ')}", words, "2"]
