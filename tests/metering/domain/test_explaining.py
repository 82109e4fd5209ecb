"""Explanations: a verdict for every case, and the rule that decided."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.catalogue.sizing import DEFAULT_RULES, Catalogue, Rule
from metering.domain.catalogue.units import GPUSize
from metering.domain.collection.windows import WindowState
from metering.domain.explain import (
    VERDICT_SENTENCES,
    ChargeVerdict,
    HeldFact,
    PodHour,
    QueryFact,
    WindowFact,
    deciding_rule,
    held_step,
    verdict_of,
    window_steps,
)

HOUR = datetime(2026, 10, 5, 13, tzinfo=UTC)
H100 = {"nvidia_com_gpu_product": "NVIDIA-H100-80GB-HBM3", "nvidia_com_gpu_replicas": "1"}
CATALOGUE = Catalogue(version=1, rules=DEFAULT_RULES)


def pod_hour(**changes: object) -> PodHour:
    given: dict[str, object] = {
        "is_known": True,
        "is_bound": True,
        "has_allocation": True,
        "overlaps": True,
        "window_state": WindowState.SEALED,
        "is_waived": False,
        "records": 0,
        "open_exceptions": 0,
        **changes,
    }
    return PodHour(**given)  # type: ignore[arg-type]


def held(**changes: object) -> HeldFact:
    given: dict[str, object] = {
        "resource": "nvidia.com/gpu",
        "units": 2,
        "size": "large",
        "price_group": "H100/whole",
        "sharing_mode": "whole",
        "share": "1",
        "source": "kubernetes",
        "node": "gpu-1",
        "node_labels": H100,
        "catalogue_version": 1,
        "begin_at": HOUR,
        "end_at": None,
        "end_kind": "vanished_in_gap",
        "end_slack_seconds": 90,
        **changes,
    }
    return HeldFact(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"records": 1}, ChargeVerdict.CHARGED),
        ({"records": 1, "open_exceptions": 1}, ChargeVerdict.CHARGED),
        ({"open_exceptions": 1}, ChargeVerdict.HELD_BACK),
        ({"is_known": False}, ChargeVerdict.NOT_SEEN),
        ({"is_bound": False}, ChargeVerdict.NEVER_BOUND),
        ({"has_allocation": False}, ChargeVerdict.NEVER_HELD),
        ({"overlaps": False}, ChargeVerdict.OUTSIDE),
        ({"window_state": None}, ChargeVerdict.NOT_METERED),
        ({"window_state": WindowState.GAP}, ChargeVerdict.NOT_SEALED),
        ({"is_waived": True}, ChargeVerdict.WAIVED),
        ({"is_settled": True}, ChargeVerdict.SETTLED),
        ({"is_settled": True, "open_exceptions": 1}, ChargeVerdict.HELD_BACK),
        ({"is_settled": True, "records": 1}, ChargeVerdict.CHARGED),
        ({}, ChargeVerdict.NOT_RECORDED),
    ],
)
def test_the_first_cause_that_applies_is_reported(
    changes: dict[str, object], verdict: ChargeVerdict
) -> None:
    assert verdict_of(pod_hour(**changes)) is verdict


def test_every_verdict_has_its_sentence() -> None:
    assert set(VERDICT_SENTENCES) == set(ChargeVerdict)
    assert all(sentence.endswith(".") for sentence in VERDICT_SENTENCES.values())


@given(
    st.builds(
        PodHour,
        is_known=st.booleans(),
        is_bound=st.booleans(),
        has_allocation=st.booleans(),
        overlaps=st.booleans(),
        window_state=st.none() | st.sampled_from(WindowState),
        is_waived=st.booleans(),
        records=st.integers(0, 3),
        open_exceptions=st.integers(0, 3),
    )
)
def test_only_a_pod_with_a_record_is_charged(hour: PodHour) -> None:
    assert (verdict_of(hour) is ChargeVerdict.CHARGED) == (hour.records > 0)


def test_the_rule_that_decides_is_counted_from_one() -> None:
    found = deciding_rule(CATALOGUE, resource="nvidia.com/gpu", labels=H100)

    assert found is not None
    assert (found[0], found[1].size) == (len(DEFAULT_RULES), GPUSize.LARGE)


def test_an_earlier_rule_decides_before_a_later_one() -> None:
    rules = (Rule(GPUSize.SMALL, ("nvidia.com/mig-*",)), Rule(GPUSize.MEDIUM, ("nvidia.com/*",)))

    found = deciding_rule(
        Catalogue(1, (*rules, *DEFAULT_RULES)), resource="nvidia.com/gpu", labels=H100
    )

    assert found is not None
    assert (found[0], found[1].size) == (2, GPUSize.MEDIUM)


def test_no_rule_decides_about_what_has_no_labels() -> None:
    assert deciding_rule(CATALOGUE, resource="nvidia.com/gpu", labels={}) is None


def test_what_was_held_is_reported_with_its_rule_and_labels() -> None:
    step = held_step(held(), catalogue=CATALOGUE)

    assert step.sentence == (
        "2 x nvidia.com/gpu on gpu-1, from 2026-10-05T13:00:00Z to now (vanished in gap), "
        "seen first by kubernetes."
    )
    assert step.facts["catalogue_rule"] == len(DEFAULT_RULES)
    assert step.facts["catalogue_rule_matches"] == "nvidia.com/gpu"
    assert step.facts["node_label.nvidia_com_gpu_product"] == "NVIDIA-H100-80GB-HBM3"


def test_what_no_rule_knows_is_reported_so() -> None:
    unsized = held(node_labels={}, size="", node="", catalogue_version=None)

    assert held_step(unsized, catalogue=CATALOGUE).facts["catalogue_rule"] == "none"
    step = held_step(unsized, catalogue=None)
    assert "catalogue_rule" not in step.facts
    assert "an unknown node" in step.sentence


def test_a_window_is_reported_with_every_query_behind_it() -> None:
    window = WindowFact(
        id=7,
        cluster="hopper",
        start_at=HOUR,
        state=WindowState.SEALED,
        sources=("kubernetes", "prometheus"),
        coverage="1.00000",
        watch_coverage="0.99000",
        as_of=HOUR,
        sealed_at=None,
        record_digest="ab",
        evidence=(
            QueryFact(query="up[1h]", at="2026-10-05T14:15:00+00:00", sha256="cd", samples=9),
        ),
        reconciliation={"agreed": 3, "differs": [1]},
        unobserved_seconds=90,
        hidden_unit_seconds_max={"large": 630},
    )

    hour, evidence = window_steps(window)

    assert hour.facts["unobserved_seconds"] == 90
    assert hour.facts["hidden_unit_seconds_max.large"] == 630

    assert hour.sentence == (
        "hopper, 2026-10-05T13:00:00Z: sealed, metered from kubernetes and prometheus."
    )
    assert hour.facts["reconciliation.agreed"] == 3
    assert hour.facts["reconciliation.differs"] == "[1]"
    assert (hour.facts["as_of"], hour.facts["sealed_at"]) == ("2026-10-05T13:00:00Z", "")
    assert evidence.facts == {
        "query": "up[1h]",
        "at": "2026-10-05T14:15:00+00:00",
        "sha256": "cd",
        "samples": 9,
    }
