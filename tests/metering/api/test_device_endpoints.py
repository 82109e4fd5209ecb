"""Device usage over REST: the platform sees all, a tenant what its own pods held alone."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from metering.models import DeviceUsage, MeteringWindow
from tests.support.cast import Cast
from tests.support.metering.clients import API, RANGE, ClientFor, results
from tests.support.metering.device_rows import make_device_usage
from tests.support.metering.seen import HOUR, moment
from tests.support.shared_rows import shared_rows


@shared_rows
def rows(cast: Cast) -> None:
    """One row of every kind in the hour that is not sealed."""
    window = MeteringWindow.objects.exclude(state="sealed").get()
    common: dict[str, Any] = {
        "window": window,
        "node": "node-1",
        "begin_at": window.start_at,
        "end_at": moment(1800, start_at=window.start_at),
    }
    for project in (cast.llm, cast.vision, cast.virus):
        make_device_usage(
            **common,
            uuid=f"GPU-{project.slug}",
            attribution="exclusive",
            pod_name="train-0",
            pod_uid=project.slug,
            organization=project.organization,
            project=project,
        )
    for attribution in ("shared", "idle", "unattributed", "overhead"):
        make_device_usage(**common, uuid=f"GPU-{attribution}", attribution=attribution)


def seen(client_for: ClientFor, user: User, **query: str) -> list[str]:
    found = results(client_for(user), "device-usage", **query)
    return sorted(row["uuid"] for row in found if not row["uuid"].startswith("GPU-seen"))


@pytest.mark.usefixtures("rows")
def test_the_platform_sees_every_device(cast: Cast, client_for: ClientFor) -> None:
    everything = [
        "GPU-idle",
        "GPU-llm",
        "GPU-overhead",
        "GPU-shared",
        "GPU-unattributed",
        "GPU-virus",
        "GPU-vision",
    ]

    assert seen(client_for, cast.frank) == everything


@pytest.mark.usefixtures("rows")
def test_tenants_see_only_devices_that_served_their_own_pods_alone(
    cast: Cast, client_for: ClientFor
) -> None:
    assert seen(client_for, cast.alice) == ["GPU-llm", "GPU-vision"]
    assert seen(client_for, cast.bob) == ["GPU-llm"]
    assert seen(client_for, cast.mallory) == ["GPU-virus"]


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"attribution": "idle"}, ["GPU-idle"]),
        ({"uuid": "GPU-llm"}, ["GPU-llm"]),
        ({"pod_uid": "virus"}, ["GPU-virus"]),
        ({"node": "node-9"}, []),
    ],
)
def test_devices_are_filtered(
    cast: Cast, client_for: ClientFor, query: dict[str, str], expected: list[str]
) -> None:
    assert seen(client_for, cast.frank, **query, **RANGE) == expected


@pytest.mark.usefixtures("rows")
def test_an_attribution_nobody_knows_is_refused(cast: Cast, client_for: ClientFor) -> None:
    answer = client_for(cast.frank).get(f"{API}/device-usage/", {"attribution": "stolen"})

    assert answer.status_code == 422
    assert "attribution" in str(answer.json())


@pytest.mark.usefixtures("rows")
def test_a_figure_without_data_is_null(cast: Cast, client_for: ClientFor) -> None:
    [row] = results(client_for(cast.frank), "device-usage", uuid="GPU-llm")

    assert row["busy_ratio"] is None
    assert row["memory_total_mebibytes"] is None
    assert row["project"] == str(cast.llm.pk)
    assert (row["seconds"], row["attribution"]) == (1800, "exclusive")
    assert row["window_start"] == moment(3600).isoformat().replace("+00:00", "Z")
    assert DeviceUsage.objects.get(uuid="GPU-llm").begin_at > HOUR


@pytest.mark.usefixtures("rows")
def test_nothing_can_be_written(cast: Cast, client_for: ClientFor) -> None:
    before = DeviceUsage.objects.count()

    assert client_for(cast.frank).post(f"{API}/device-usage/", {}).status_code == 405
    assert DeviceUsage.objects.count() == before
