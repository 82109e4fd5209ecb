"""Every cause has a sentence and a remedy."""

import pytest

from metering.domain.catalogue import UnsizedCause
from metering.domain.exceptions import (
    BLOCKING_KINDS,
    REMEDIES,
    ExceptionKind,
    Finding,
    pod_subject,
    unsized_kind,
    unsized_sentence,
)


@pytest.mark.parametrize("kind", ExceptionKind)
def test_every_kind_has_a_remedy(kind: ExceptionKind) -> None:
    finding = Finding(kind=kind, subject="", summary="Something is wrong.")

    assert finding.remedy == REMEDIES[kind]
    assert finding.remedy.endswith(".")


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
    } == BLOCKING_KINDS


def test_a_pods_subject_names_the_resource_too() -> None:
    assert pod_subject(uid="u1", resource="nvidia_com_gpu") == "u1 nvidia_com_gpu"
