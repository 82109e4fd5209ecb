"""The tile of cluster health: a row per cluster, and a dash for what nobody knew."""

from uuid import UUID

from config.dashboard.context import health_table
from metering.selectors.devices.usage import HealthTotal

HOPPER, AMPERE = UUID(int=1), UUID(int=2)
NAMES: dict[object, str] = {HOPPER: "Hopper", AMPERE: "Ampere"}


def test_clusters_stand_by_name_with_dashes_for_what_nobody_knew() -> None:
    table = health_table(
        [
            HealthTotal(HOPPER, 744, 1000, 985, 1234, 7500, 2, 1),
            HealthTotal(AMPERE, 1, None, None, None, None, 0, 0),
        ],
        names=NAMES,
    )

    assert [header["text"] for header in table["headers"]] == [
        "Cluster",
        "Nodes ready",
        "Most pods waiting",
        "Longest wait",
        "Memory errors",
        "Failures",
    ]
    assert [[cell["text"] for cell in row] for row in table["rows"]] == [
        ["Ampere", "-", "-", "-", "0", "0"],
        ["Hopper", "98.5\N{NO-BREAK SPACE}%", "1,234", "2 h 5 min", "2", "1"],
    ]


def test_failures_lead_to_their_events_and_none_lead_nowhere() -> None:
    table = health_table(
        [HealthTotal(HOPPER, 1, 1, 1, 0, 0, 0, 3), HealthTotal(AMPERE, 1, 1, 1, 0, 0, 0, 0)],
        names=NAMES,
    )

    ampere, hopper = table["rows"]
    assert ampere[-1]["link"] == ""
    assert hopper[-1]["link"] == (
        f"/admin/metering/deviceevent/?cluster__id__exact={HOPPER}&severity__exact=fail"
    )
    assert hopper[0]["link"] == f"/admin/metering/clusterhealth/?cluster__id__exact={HOPPER}"


def test_without_hours_there_are_no_rows() -> None:
    assert health_table([], names=NAMES)["rows"] == []
