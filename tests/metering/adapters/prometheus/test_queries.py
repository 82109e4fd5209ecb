"""The queries, word for word: a change here is a change of what is billed."""

import re
from pathlib import Path

import pytest

from metering.adapters.prometheus.devices.aggregates import Aggregates
from metering.adapters.prometheus.names import ENERGY, FIGURES, PRESENCE, names_of
from metering.adapters.prometheus.nodes import Hours
from metering.adapters.prometheus.queries import (
    COVERAGE_JOBS,
    QueryPlan,
    counts,
    plan_queries,
    quoted,
)
from metering.domain.catalogue.names import SANITISED_NAMES
from metering.protocols import ClusterTarget

ROOT = Path(__file__).resolve().parents[4]


def plan(**target: object) -> QueryPlan:
    reported = ClusterTarget(slug="hopper", **target)  # type: ignore[arg-type]
    return plan_queries(reported, names_of(reported), resources=SANITISED_NAMES, jobs=COVERAGE_JOBS)


def test_observations_are_raw_samples() -> None:
    assert plan().observations(4440) == (
        '{__name__=~"kube_pod_container_resource_requests'
        "|kube_pod_init_container_resource_requests|kube_node_status_allocatable|up"
        "|kube_state_metrics_total_shards|kube_state_metrics_shard_ordinal"
        f'",resource=~"|{SANITISED_NAMES}",job=~".*kube-state-metrics.*"}}[4440s]'
    )


def test_facts_are_last_values_of_what_concerns_GPUs() -> None:  # noqa: N802 - Names.
    requested = (
        'last_over_time({__name__=~"kube_pod_container_resource_requests'
        f'|kube_pod_init_container_resource_requests",resource=~"{SANITISED_NAMES}"}}[4440s])'
    )
    assert plan().facts(4440) == (
        "label_replace(group by (hostname,Hostname,exported_hostname,exported_Hostname"
        ",exported_node,node,kubernetes_node,modelName,model_name)"
        ' (last_over_time({__name__=~"DCGM_FI_DEV_GPU_UTIL|dcgm_gpu_utilization'
        "|DCGM_FI_PROF_GR_ENGINE_ACTIVE"
        "|DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO|dcgm_fi_prof_gr_engine_active"
        '|DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION|dcgm_total_energy_consumption"}[4440s]))'
        ',"__name__","DCGM_FI_DEV_GPU_UTIL","","")'
        ' or (last_over_time({__name__=~"kube_node_labels"}[4440s])'
        ' and on (node) last_over_time({__name__=~"kube_node_status_allocatable"'
        f',resource=~"{SANITISED_NAMES}"}}[4440s]))'
        ' or ((last_over_time({__name__=~"kube_pod_status_phase"'
        f',phase=~"Succeeded|Failed"}}[4440s]) == 1) and on (uid) {requested})'
        ' or (last_over_time({__name__=~"kube_pod_info|kube_pod_labels'
        "|kube_pod_created|kube_pod_status_scheduled_time|kube_pod_completion_time|kube_pod_init_container_info"
        f'",restart_policy=~"|Always"}}[4440s]) and on (uid) {requested})'
    )


def test_exporters_are_the_targets_that_devices_come_from() -> None:
    assert plan().exporters(3840) == (
        'last_over_time({__name__=~"up",pod!=""}[3840s])'
        ' and on (job,instance) last_over_time({__name__=~"DCGM_FI_DEV_GPU_UTIL'
        "|dcgm_gpu_utilization|DCGM_FI_PROF_GR_ENGINE_ACTIVE|DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"
        '|dcgm_fi_prof_gr_engine_active"}[3840s])'
    )


def test_counts_are_of_the_very_queries_a_bill_is_made_from() -> None:
    observations, facts = plan().observations(4440), plan().facts(4440)

    assert counts({"observations": observations, "facts": facts}) == (
        f"label_replace(count(last_over_time({observations})) or vector(0),"
        '"answer","observations","","")'
        f' or label_replace(count({facts}) or vector(0),"answer","facts","","")'
    )


def test_devices_are_raw_samples() -> None:
    assert plan().devices(PRESENCE, "", 3840) == (
        '{__name__=~"DCGM_FI_DEV_GPU_UTIL|dcgm_gpu_utilization|DCGM_FI_PROF_GR_ENGINE_ACTIVE'
        "|DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO|dcgm_fi_prof_gr_engine_active"
        '|DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION|dcgm_total_energy_consumption"}[3840s]'
    )


def test_figures_of_devices_are_raw_samples() -> None:
    assert plan().devices(FIGURES, "", 3840) == (
        '{__name__=~"DCGM_FI_DEV_POWER_USAGE|DCGM_FI_DEV_BOARD_POWER_WATTS|dcgm_power_usage'
        "|DCGM_FI_DEV_SM_CLOCK|dcgm_sm_clock|DCGM_FI_DEV_FB_USED|dcgm_fb_used"
        "|DCGM_FI_DEV_FB_FREE|dcgm_fb_free|DCGM_FI_DEV_FB_RESERVED|dcgm_fb_reserved"
        "|DCGM_FI_PROF_SM_ACTIVE|DCGM_FI_PROF_SM_UTIL_RATIO|dcgm_fi_prof_sm_active"
        "|DCGM_FI_PROF_PIPE_TENSOR_ACTIVE|DCGM_FI_PROF_TENSOR_UTIL_RATIO"
        "|dcgm_fi_prof_pipe_tensor_active|DCGM_FI_PROF_DRAM_ACTIVE|DCGM_FI_PROF_DRAM_UTIL_RATIO"
        '|dcgm_fi_prof_dram_active"}[3840s]'
    )


def test_parts_of_devices_share_out_every_uuid() -> None:
    parts = plan().device_parts(2)

    assert len(parts) == 257
    uuids = ["GPU-4a7b", "GPU-00", "GPU-ff-1", "GPU-4", "gpu-4a", "MIG-4a", ""]
    patterns = [re.fullmatch(r',UUID(=~|!~)"(.*)"', part) for part in parts]
    for uuid in uuids:
        matched = [
            one
            for one in patterns
            if one and (re.fullmatch(one[2], uuid) is not None) == (one[1] == "=~")
        ]
        assert len(matched) == 1
    assert plan().device_parts(0) == ("",)
    assert plan(label_aliases={"uuid": ("gpu-id",)}).device_parts(1) == ("",)


def test_gpus_are_listed_by_the_label_that_holds_their_uuid() -> None:
    uuids = {f"GPU-{number:02d}": "UUID" for number in range(51)}

    assert plan().device_lists({"GPU-2": "uuid", "GPU-1": "uuid"}) == (',uuid=~"GPU-1|GPU-2"',)
    assert plan().device_lists(uuids) == (
        ',UUID=~"' + "|".join(sorted(uuids)[:50]) + '"',
        ',UUID=~"GPU-50"',
    )
    assert plan().device_lists({}) == ()


@pytest.mark.parametrize(
    ("uuid", "label"), [("GPU-1|.*", "UUID"), ('"', "UUID"), ("GPU-1", "a-b"), ("GPU-1", "")]
)
def test_a_gpu_that_cannot_be_named_in_a_query_is_not_listed(uuid: str, label: str) -> None:
    assert plan().device_lists({uuid: label, "GPU-2": "UUID"}) is None


def test_a_shared_prometheus_is_narrowed_in_every_selector() -> None:
    chosen = plan(selector_label="cluster", selector_value="hopper/a:1")
    details = chosen.details(("kube_pod_status_phase",), 60)

    assert chosen.observations(60).count(',cluster="hopper/a:1"}') == 1
    assert chosen.facts(60).count(',cluster="hopper/a:1"}') == 7
    assert chosen.exporters(60).count(',cluster="hopper/a:1"}') == 2
    assert chosen.devices(PRESENCE, "", 60).count(',cluster="hopper/a:1"}') == 1
    assert details == (
        '{__name__=~"kube_pod_status_phase",phase=~"|Succeeded|Failed",cluster="hopper/a:1"}[60s]'
    )


def test_the_reference_page_shows_the_queries_word_for_word() -> None:
    page = "".join((ROOT / "docs/reference/metering-queries.md").read_text("utf-8").split())

    for query in (
        plan().observations(4440),
        plan().facts(4440),
        plan().exporters(3840),
        plan().device_series(),
        plan().devices((ENERGY,), "", 240),
        Aggregates(plan(), "", Hours(0, 3_600_000, 60_000)).presence(),
        Aggregates(plan(), "", Hours(0, 3_600_000, 60_000)).means(),
        Aggregates(plan(), "", Hours(0, 3_600_000, 60_000)).extremes(),
        plan().devices(PRESENCE, "", 3840),
        plan().devices(FIGURES, "", 3840),
        plan().details(("kube_pod_status_phase",), 4440),
    ):
        assert "".join(query.split()) in page


@pytest.mark.parametrize(
    ("text", "literal"),
    [("a", '"a"'), ('a"b', '"a\\"b"'), ("a\\b", '"a\\\\b"'), ("é{}", '"é{}"'), ("", '""')],
)
def test_literals_are_quoted_as_go_does(text: str, literal: str) -> None:
    assert quoted(text) == literal


@pytest.mark.parametrize("text", ["a\nb", "\x00", "\u202e"])
def test_control_characters_have_no_literal(text: str) -> None:
    with pytest.raises(ValueError, match="control character"):
        quoted(text)
