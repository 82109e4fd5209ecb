"""Names: every spelling that is known, and a site's own before them."""

from pathlib import Path

import pytest

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.names import DEFAULT_LABELS, DEFAULT_METRICS, Names, names_of
from metering.protocols import ClusterTarget
from tenants.domain.errors import SourceUnavailableError

ROOT = Path(__file__).resolve().parents[4]


def names(**aliases: dict[str, tuple[str, ...]]) -> Names:
    return names_of(ClusterTarget(slug="hopper", **aliases))  # type: ignore[arg-type]


def test_every_name_of_dcgm_4_6_is_read_as_the_one_before_it() -> None:
    renamed = {
        "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO": known.BUSY_RATIO,
        "DCGM_FI_PROF_SM_UTIL_RATIO": known.SM_ACTIVE,
        "DCGM_FI_PROF_TENSOR_UTIL_RATIO": known.TENSOR_ACTIVE,
        "DCGM_FI_PROF_DRAM_UTIL_RATIO": known.DRAM_ACTIVE,
        "DCGM_FI_DEV_BOARD_POWER_WATTS": known.POWER,
    }

    assert {site: names().ours[site] for site in renamed} == renamed


def test_a_utilization_whose_unit_is_not_known_is_read_only_when_a_site_says() -> None:
    unclear = "DCGM_FI_DEV_GPU_UTIL_RATIO"

    assert unclear not in names().ours
    reported = names(metric_aliases={known.BUSY_RATIO: (unclear,)})
    assert reported.ours[unclear] == known.BUSY_RATIO


def test_a_sites_names_go_before_the_defaults() -> None:
    reported = names(
        metric_aliases={known.POWER: ("gpu_watts", "DCGM_FI_DEV_POWER_USAGE")},
        label_aliases={"uuid": ("gpu_uuid", "uuid")},
    )

    assert reported.spelled(known.POWER) == (
        "gpu_watts",
        "DCGM_FI_DEV_POWER_USAGE",
        "DCGM_FI_DEV_BOARD_POWER_WATTS",
        "dcgm_power_usage",
    )
    assert reported.labels["uuid"] == ("gpu_uuid", "uuid", "UUID")
    assert reported.label({"gpu_uuid": "mine", "UUID": "theirs"}, "uuid") == "mine"
    assert reported.label({"UUID": "theirs"}, "uuid") == "theirs"
    assert reported.label({}, "uuid") == ""


def test_a_default_that_a_site_gives_to_another_metric_is_taken_from_its_own() -> None:
    reported = names(metric_aliases={known.BUSY_RATIO: (known.BUSY_PERCENT,)})

    assert reported.ours[known.BUSY_PERCENT] == known.BUSY_RATIO
    assert reported.spelled(known.BUSY_PERCENT) == ("dcgm_gpu_utilization",)
    assert reported.spelled(known.BUSY_RATIO)[0] == known.BUSY_PERCENT


def test_a_metric_of_the_sites_own_invention_is_kept() -> None:
    assert names(metric_aliases={"SITE_XID": ("xid_of_ours",)}).spelled("SITE_XID") == (
        "xid_of_ours",
    )


@pytest.mark.parametrize(
    "aliases",
    [
        {known.POWER: ("x",), known.ENERGY: ("x",)},
        {known.UP: ("kube_pod_info",)},
        {known.POWER: ("no metric",)},
        {known.POWER: ()},
    ],
    ids=["one for two", "the only name of another", "no name", "nothing"],
)
def test_aliases_that_cannot_be_are_refused(aliases: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(SourceUnavailableError) as refusal:
        names(metric_aliases=aliases)

    assert refusal.value.reason == "bad_target"


def test_the_reference_pages_name_every_metric_and_label() -> None:
    metrics = (ROOT / "docs/reference/device-metrics.md").read_text("utf-8")
    queries = (ROOT / "docs/reference/metering-queries.md").read_text("utf-8")

    for metric in (*known.PRESENCE, *known.FIGURES):
        short = metric.removeprefix("DCGM_FI_DEV_")
        assert metric in metrics or short in metrics
        for site in DEFAULT_METRICS[metric]:
            assert site in queries
    for sites in DEFAULT_LABELS.values():
        for site in sites:
            assert f"`{site}`" in queries
