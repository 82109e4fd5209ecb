"""Verdicts are read from the ledger's JSON, number by number."""

import pytest

from metering.domain.catalogue.units import GPUSize
from quotas.domain.admission.values import AdmissionVerdict, Blocker, VerdictCode, verdict_of

TOLD = {
    "scope": "project",
    "holder": "llm",
    "size": "large",
    "model_group": "H100",
    "cluster": "hopper",
    "is_burst": False,
    "limit_units": 8,
    "used_units": 6,
    "reserved_units": 1,
    "asked_units": 2,
}
BLOCKER = Blocker(
    scope="project",
    holder="llm",
    size=GPUSize.LARGE,
    model_group="H100",
    cluster="hopper",
    is_burst=False,
    limit_units=8,
    used_units=6,
    reserved_units=1,
    asked_units=2,
)


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ({"code": "allowed"}, AdmissionVerdict(VerdictCode.ALLOWED)),
        (
            {"code": "allowed", "blocker": None, "nearly_full": [TOLD]},
            AdmissionVerdict(VerdictCode.ALLOWED, nearly_full=(BLOCKER,)),
        ),
        (
            {"code": "limit_reached", "blocker": TOLD},
            AdmissionVerdict(VerdictCode.LIMIT_REACHED, blocker=BLOCKER),
        ),
        (
            {"code": "suspended", "reason": "The budget is used up."},
            AdmissionVerdict(VerdictCode.SUSPENDED, reason="The budget is used up."),
        ),
    ],
)
def test_a_verdict_says_what_the_ledger_answered(
    answer: dict[str, object], verdict: AdmissionVerdict
) -> None:
    assert verdict_of(answer) == verdict


def test_only_what_begins_with_allowed_lets_a_pod_in() -> None:
    allowed = {code for code in VerdictCode if AdmissionVerdict(code).is_allowed}

    assert allowed == {
        VerdictCode.ALLOWED,
        VerdictCode.ALLOWED_BEFORE,
        VerdictCode.ALLOWED_UNGOVERNED,
    }


def test_a_code_nobody_knows_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="perhaps"):
        verdict_of({"code": "perhaps"})
