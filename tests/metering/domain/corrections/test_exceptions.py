"""Every cause has a sentence and a remedy."""

import pytest

from metering.domain.catalogue.sizing import UnsizedCause
from metering.domain.corrections.exceptions import (
    BLOCKING_KINDS,
    REMEDIES,
    UNKNOWN_RESOURCE_REMEDY,
    ExceptionKind,
    Finding,
    pod_subject,
    remedy_of,
    unsized_kind,
    unsized_sentence,
)


@pytest.mark.parametrize("kind", ExceptionKind)
def test_every_kind_has_a_remedy(kind: ExceptionKind) -> None:
    finding = Finding(kind=kind, subject="", summary="Something is wrong.")

    assert finding.remedy == REMEDIES[kind]
    assert finding.remedy.endswith(".")


@pytest.mark.parametrize("cause", [None, "", "unbound_namespace", "unmapped"])
def test_a_kind_says_what_to_do(cause: object) -> None:
    kind = ExceptionKind.UNKNOWN_DEVICE

    assert remedy_of(kind, cause=cause) == REMEDIES[kind]


def test_what_no_rule_can_size_is_not_sent_to_the_catalogue() -> None:
    found = Finding(
        kind=ExceptionKind.UNKNOWN_DEVICE,
        subject="uid nvidia_com_gpumem",
        summary="No rule knows the resource.",
        details={"cause": "unknown_resource"},
    )

    assert found.remedy == UNKNOWN_RESOURCE_REMEDY
    assert found.remedy.startswith("No catalogue rule can give this resource a size.")


@pytest.mark.parametrize("cause", UnsizedCause)
def test_every_cause_has_a_sentence(cause: UnsizedCause) -> None:
    assert unsized_sentence(cause).endswith(".")


def test_only_a_missing_label_is_the_nodes_fault() -> None:
    kinds = {cause: unsized_kind(cause) for cause in UnsizedCause}

    assert kinds.pop(UnsizedCause.NO_LABELS) is ExceptionKind.UNKNOWN_NODE
    assert set(kinds.values()) == {ExceptionKind.UNKNOWN_DEVICE}


def test_only_doubt_about_the_whole_window_keeps_it_from_its_seal() -> None:
    assert {
        ExceptionKind.OVER_CAPACITY,
        ExceptionKind.LOW_COVERAGE,
        ExceptionKind.SOURCE_UNAVAILABLE,
        ExceptionKind.QUARANTINED,
        ExceptionKind.OVERDUE,
    } == BLOCKING_KINDS


def test_a_pods_subject_names_the_resource_too() -> None:
    assert pod_subject(uid="u1", resource="nvidia_com_gpu") == "u1 nvidia_com_gpu"
