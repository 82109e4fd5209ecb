"""/api/v1/enforcement-targets/: what is shown a namespace, and applying it again."""

import pytest

from quotas.models import AdmissionCoverage, EnforcementTarget
from simulator.adapters.quota_enforcer import SimulatedQuotaEnforcer
from tenants.models import Cluster
from tests.quotas.api.conftest import Caller
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import audit_actions, make_limit
from tests.support.quotas.enforcing import GPU, MIG, refresh
from tests.support.shared_rows import shared_rows

URL = "/api/v1/enforcement-targets/"


@shared_rows
def target(cast: Cast) -> EnforcementTarget:
    bind(make_cluster(), "llm", cast.llm)
    make_limit(cast.acme, cast.llm, units=8, burst_units=2)
    refresh()
    return EnforcementTarget.objects.get()


def test_a_target_is_applied_again_and_reported_as_it_is_then(
    target: EnforcementTarget, caller: Caller
) -> None:
    answer = caller("frank").post(f"{URL}{target.pk}/apply/")

    body = answer.json()
    assert (answer.status_code, body["state"]) == (200, "applied")
    assert body["applied_hard"] == body["live_hard"] == {GPU: 8, MIG: 0}
    assert body["applied_burst"] == body["live_burst"] == {GPU: 2, MIG: 0}
    assert (body["foreign_quotas"], body["drifts_repaired"], body["is_held"]) == ({}, 0, False)
    assert SimulatedQuotaEnforcer.cluster("hopper").quotas["llm"].hard == {GPU: 8, MIG: 0}
    assert "quotas:enforcement:apply_again" in audit_actions()


@pytest.mark.parametrize(("who", "status"), [("ann", 403), ("dora", 403), ("bob", 404)])
def test_who_may_not_write_changes_nothing(
    target: EnforcementTarget, caller: Caller, who: str, status: int
) -> None:
    before = audit_actions()

    assert caller(who).post(f"{URL}{target.pk}/apply/").status_code == status

    target.refresh_from_db()
    assert (target.state, target.not_before) == ("pending", AT)
    assert SimulatedQuotaEnforcer.cluster("hopper").quotas == {}
    assert audit_actions() == before


@pytest.mark.usefixtures("target")
def test_targets_are_found_by_organization(cast: Cast, caller: Caller) -> None:
    frank = caller("frank")

    found = [
        len(frank.get(URL, {"organization": str(one.pk)}).json()["results"])
        for one in (cast.acme, cast.umbrella)
    ]

    assert found == [1, 0]


@pytest.mark.parametrize(
    ("settings", "columns", "reason"),
    [
        ({"admission_on_failure": "allow"}, {}, "The cluster is not set to enforce and to deny"),
        ({}, None, "The webhooks of the cluster were not read yet."),
        ({}, {"problem": "The cluster has no webhook."}, "The cluster has no webhook."),
        ({}, {"covered_at": AT, "excluded": ["llm"]}, "The webhooks do not ask about this"),
        ({}, {"covered_at": AT}, ""),
    ],
    ids=["setting", "unread", "problem", "excluded", "counted"],
)
def test_a_target_says_why_its_limit_is_divided(
    target: EnforcementTarget,
    caller: Caller,
    settings: dict[str, object],
    columns: dict[str, object] | None,
    reason: str,
) -> None:
    given = {"is_watched": True, "admission_mode": "enforce", "admission_on_failure": "deny"}
    Cluster.objects.update(**{**given, **settings})
    if columns is not None:
        AdmissionCoverage.objects.create(cluster=target.cluster, checked_at=AT, **columns)

    found = caller("frank").get(f"{URL}{target.pk}/").json()["uncounted_reason"]

    assert found.startswith(reason)
    assert bool(found) == bool(reason)
