"""Asking clusters: what goes wrong is an answer, unless it is the task's own time."""

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from quotas.protocols import LiveQuota
from quotas.services.enforcement.asking import ClusterAnswer, ask_all
from tests.support.builders import AT
from tests.support.quotas.enforcing import SYSTEM


def test_what_goes_wrong_at_one_cluster_stands_beside_its_question() -> None:
    fault = ValueError("no JSON")

    def ask(_: str) -> LiveQuota:
        raise fault

    assert list(ask_all(["llm"], ask, slug_of=str, actor=SYSTEM, at=AT)) == [
        ClusterAnswer("llm", error=fault)
    ]


def test_the_end_of_a_tasks_time_is_no_answer_of_a_cluster() -> None:
    def ask(_: str) -> LiveQuota:
        raise SoftTimeLimitExceeded

    with pytest.raises(SoftTimeLimitExceeded):
        list(ask_all(["llm"], ask, slug_of=str, actor=SYSTEM, at=AT))
