"""While the ledger is away the cluster's own policy decides, at once and without a restart."""

import time
from collections.abc import Callable, Iterator

import pytest
from django.db import connections

from quotas.models import Reservation
from quotas.webhook import answers
from quotas.webhook.decisions import Decision, allowed
from tenants.models import Cluster
from tests.quotas.webhook.conftest import Webhooks
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.quotas.reviews import pod

pytestmark = pytest.mark.usefixtures("committed_db")


@pytest.fixture
def hopper(committed_db: str) -> Cluster:  # noqa: ARG001 - It is made there.
    cluster = make_cluster(is_watched=True, admission_mode="enforce")
    bind(cluster, "team-llm", make_project(make_organization()))
    return cluster


@pytest.fixture
def take_away() -> Iterator[Callable[[], None]]:
    """Return what takes the ledger away: its address leads nowhere from then on."""
    known = dict(connections["default"].settings_dict)

    def take() -> None:
        connections["default"].close()
        connections["default"].settings_dict.update(HOST="127.0.0.1", PORT="1")

    yield take
    connections["default"].close()
    connections["default"].settings_dict.update(known)


@pytest.mark.parametrize(
    ("mode", "policy", "is_allowed"),
    [("enforce", "allow", True), ("enforce", "deny", False), ("warn", "deny", True)],
)
def test_the_clusters_policy_is_answered_and_nothing_hangs(
    webhooks: Webhooks,
    hopper: Cluster,
    take_away: Callable[[], None],
    mode: str,
    policy: str,
    is_allowed: bool,  # noqa: FBT001 - A table.
) -> None:
    hopper.admission_mode, hopper.admission_on_failure = mode, policy
    hopper.save(update_fields=["admission_mode", "admission_on_failure"])
    host = str(connections["default"].settings_dict["HOST"])
    port = str(connections["default"].settings_dict["PORT"])
    assert webhooks.admit(pod(0)).reason == "no_gpus"

    take_away()
    begin = time.monotonic()
    reported = [webhooks.admit(pod(1)) for _ in range(20)]
    took = time.monotonic() - begin

    assert took < 2
    assert {one.is_allowed for one in reported} == {is_allowed}
    reason = "undecided_allowed" if is_allowed else "undecided_refused"
    assert {one.reason for one in reported} == {reason}
    if is_allowed:
        assert "lets the pod in" in reported[0].warnings[0]
    else:
        assert (reported[0].code, "try again" in reported[0].message) == (503, True)
    assert webhooks.get("/readyz").status == 503
    connections["default"].settings_dict.update(HOST=host, PORT=port)
    assert Reservation.objects.count() == 0


def test_it_decides_again_once_the_ledger_is_back(
    webhooks: Webhooks, hopper: Cluster, take_away: Callable[[], None]
) -> None:
    assert hopper.admission_mode == "enforce"
    known = dict(connections["default"].settings_dict)
    webhooks.admit(pod(0))
    take_away()
    assert webhooks.admit(pod(1)).reason == "undecided_allowed"

    connections["default"].settings_dict.update(known)
    deadline = time.monotonic() + 5
    while (answer := webhooks.admit(pod(1))).reason != "allowed_ungoverned":
        assert time.monotonic() < deadline

    assert answer.is_allowed
    assert Reservation.objects.count() == 1


def test_what_the_ledger_itself_cannot_count_is_refused_under_every_policy(
    webhooks: Webhooks, hopper: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond what is looked at before, the database may refuse to count what a question says."""
    assert hopper.admission_on_failure == "allow"

    def too_large(*_: object, **__: object) -> Decision:
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT 2147483647::int * 8")
        return allowed("never")

    with monkeypatch.context() as patched:
        patched.setattr(answers, "decide_pod", too_large)
        answer = webhooks.admit(pod(1))

    assert (answer.is_allowed, answer.reason) == (False, "unanswerable")
    assert webhooks.admit(pod(1)).reason == "allowed_ungoverned"
    assert Reservation.objects.count() == 1


@pytest.mark.usefixtures("hopper")
def test_a_policy_this_process_never_read_is_left_to_the_api_server(
    webhooks: Webhooks, take_away: Callable[[], None]
) -> None:
    take_away()

    assert webhooks.admit(pod(1)).status == 503
    assert answers.FACTS.last_known("hopper") is None


@pytest.mark.parametrize("policy", ["allow", "deny"])
def test_a_process_that_nobody_asked_yet_knows_what_a_cluster_wants(
    webhooks: Webhooks, hopper: Cluster, take_away: Callable[[], None], policy: str
) -> None:
    hopper.admission_on_failure = policy
    hopper.save()
    make_cluster("asleep", admission_mode="off")
    answers.read_ahead()
    take_away()

    answer = webhooks.admit(pod())

    assert answer.status == 200
    assert answer.is_allowed is (policy == "allow")
    assert answers.FACTS.last_known("asleep") is None


def test_a_ledger_that_is_away_at_the_begin_stops_no_process(
    webhooks: Webhooks, take_away: Callable[[], None]
) -> None:
    take_away()

    answers.read_ahead()

    assert webhooks.admit(pod()).status == 503
