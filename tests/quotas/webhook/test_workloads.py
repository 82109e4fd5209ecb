"""The webhook of workloads: refuse what can never start, warn of what does not fit now."""

from typing import Any

import pytest
from django.utils import timezone

from quotas.models import AdmissionRefusal, EnforcementTarget, QuotaLimit, Reservation
from quotas.services.limits.changes import open_counter
from tenants.models import Cluster, Organization, Project
from tests.quotas.webhook.conftest import Webhooks
from tests.support.builders import AT
from tests.support.quotas.builders import make_limit
from tests.support.quotas.reviews import JOB_CONTROLLER, container, job, made_by

pytestmark = pytest.mark.django_db
JSON = dict[str, Any]


@pytest.fixture
def limit(acme: Organization, llm: Project) -> QuotaLimit:
    """Grant project llm four Large."""
    made = make_limit(acme, llm, units=4)
    open_counter(limit=made, at=AT)
    return made


@pytest.fixture(autouse=True)
def _nothing_is_ever_written(db: None) -> Any:  # noqa: ANN401, ARG001 - A generator.
    yield
    assert Reservation.objects.count() == 0
    assert AdmissionRefusal.objects.count() == 0


@pytest.mark.usefixtures("limit")
def test_a_job_that_fits_is_let_through_without_a_word(webhooks: Webhooks) -> None:
    answer = webhooks.warn(job(2, parallelism=2))

    assert (answer.is_allowed, answer.reason, answer.warnings) == (True, "may_fit", [])


@pytest.mark.usefixtures("limit")
def test_a_pod_larger_than_the_whole_limit_could_never_start(webhooks: Webhooks) -> None:
    answer = webhooks.warn(job(5))

    assert (answer.is_allowed, answer.reason) == (False, "never_fits")
    assert answer.message.startswith("One pod of this Job asks for 5 Large, and the limits in")
    assert "would allow 4" in answer.message


@pytest.mark.usefixtures("limit")
def test_more_pods_than_fit_now_are_warned_of(webhooks: Webhooks) -> None:
    answer = webhooks.warn(job(2, parallelism=3))

    assert (answer.is_allowed, answer.reason) == (True, "warned")
    assert answer.warnings[0].startswith(
        "It does not fit now: Project llm of acme requests 6 Large, limit 4, used 0, reserved 0"
    )


def cap(cluster: Cluster, project: Project, units: int, **columns: object) -> None:
    """Write the quota of the namespace, as it was read a moment ago."""
    EnforcementTarget.objects.create(
        cluster=cluster,
        namespace="team-llm",
        project=project,
        not_before=AT,
        **{
            "live_hard": {"requests.nvidia.com/gpu": units},
            "checked_at": timezone.now(),
            **columns,
        },
    )


@pytest.mark.usefixtures("limit")
def test_what_only_the_quota_of_its_namespace_refuses_is_warned_of(
    webhooks: Webhooks, hopper: Cluster, llm: Project
) -> None:
    cap(hopper, llm, 2)

    fits, refused = webhooks.warn(job(2)), webhooks.warn(job(3))

    assert (fits.reason, fits.warnings) == ("may_fit", [])
    assert (refused.is_allowed, refused.reason) == (True, "warned")
    (warning,) = refused.warnings
    assert warning == (
        "Its limits admit it, but ResourceQuota gpu-ledger of team-llm refuses it now: it "
        "requests 3 nvidia.com/gpu, hard 2, used 0. Spare units of other namespaces follow its "
        "refused pods."
    )
    assert len(webhooks.warn(job(1, parallelism=3)).warnings) == 1


@pytest.mark.usefixtures("limit")
def test_what_a_limit_refuses_too_is_warned_of_once(
    webhooks: Webhooks, hopper: Cluster, llm: Project
) -> None:
    cap(hopper, llm, 2)

    (warning,) = webhooks.warn(job(2, parallelism=3)).warnings

    assert warning.startswith("It does not fit now: Project llm of acme requests 6 Large")


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize(
    "columns",
    [
        {"live_hard": {"requests.nvidia.com/gpu": 1_000_000}},
        {"live_hard": {"requests.nvidia.com/mig-1g.10gb": 0}},
        {"checked_at": None},
        {"checked_at": AT},
    ],
    ids=["open", "another", "never", "old"],
)
def test_a_quota_that_says_nothing_of_it_is_not_considered(
    webhooks: Webhooks, hopper: Cluster, llm: Project, columns: JSON
) -> None:
    cap(hopper, llm, 2, **columns)

    assert webhooks.warn(job(3)).reason == "may_fit"


def test_a_tenant_nothing_is_granted_is_warned(
    webhooks: Webhooks, acme: Organization, llm: Project
) -> None:
    make_limit(acme, llm, size="small", units=4)

    answer = webhooks.warn(job(1))

    assert "is granted no Large" in answer.warnings[0]


@pytest.mark.usefixtures("limit")
def test_none_at_a_time_asks_for_nothing_now(webhooks: Webhooks) -> None:
    assert webhooks.warn(job(4, parallelism=0)).reason == "may_fit"


@pytest.mark.usefixtures("limit")
def test_more_than_can_be_counted_is_refused_and_the_next_one_answered(webhooks: Webhooks) -> None:
    answer = webhooks.warn(job(4, parallelism=2_147_483_647))

    assert (answer.is_allowed, answer.reason) == (False, "too_many")
    assert "ask for 8589934588 devices at once" in answer.message
    assert webhooks.warn(job(2)).reason == "may_fit"


@pytest.mark.usefixtures("limit")
def test_a_forged_owner_is_refused_where_it_is_written(webhooks: Webhooks) -> None:
    assert webhooks.warn(job(1, owner="bob")).reason == "forged_owner"
    assert webhooks.warn(job(1, owner="alice")).reason == "may_fit"
    changed = webhooks.warn(
        job(1, owner="bob"), operation="UPDATE", oldObject=job(1, owner="carol")
    )
    kept = webhooks.warn(job(2, owner="bob"), operation="UPDATE", oldObject=job(1, owner="bob"))
    assert changed.reason == "forged_owner"
    assert kept.is_allowed


@pytest.mark.usefixtures("limit")
def test_what_a_controller_carries_on_was_looked_at_before(webhooks: Webhooks) -> None:
    carried = made_by(job(9, owner="bob"), "batch/v1", "CronJob")

    assert webhooks.warn(carried, user=JOB_CONTROLLER).reason == "carried_on"


@pytest.mark.usefixtures("limit")
def test_what_nobody_looked_at_before_is_looked_at(webhooks: Webhooks) -> None:
    unseen = made_by(job(1, owner="bob"), "example.com/v1", "CronJob")
    garbled = {**job(1), "metadata": {"ownerReferences": "none"}}

    assert webhooks.warn(unseen, user=JOB_CONTROLLER).reason == "forged_owner"
    assert webhooks.warn(garbled).reason == "malformed"


@pytest.mark.usefixtures("limit")
def test_a_change_that_leaves_the_pods_as_they_are_is_let_through(webhooks: Webhooks) -> None:
    answer = webhooks.warn(job(9, parallelism=1), operation="UPDATE", oldObject=job(9))

    assert answer.reason == "may_fit"


@pytest.mark.usefixtures("llm")
@pytest.mark.parametrize(
    ("containers", "said"),
    [
        ([container(**{"nvidia.com/gpumem": "1"})], "is a device without a size"),
        (
            [{"name": "m", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}],
            "reaches GPUs without requesting any",
        ),
    ],
    ids=["unknown", "hidden"],
)
def test_what_its_pods_would_be_refused_for_is_reported(
    webhooks: Webhooks, containers: list[JSON], said: str
) -> None:
    made = job(0)
    made["spec"]["template"]["spec"]["containers"] = containers

    answer = webhooks.warn(made)

    assert answer.is_allowed
    assert said in answer.warnings[0]


@pytest.mark.usefixtures("hopper")
def test_a_namespace_nobody_has_is_reported(webhooks: Webhooks) -> None:
    assert "belongs to no project" in webhooks.warn(job(1)).warnings[0]


@pytest.mark.usefixtures("limit")
def test_a_template_no_server_would_make_is_refused(webhooks: Webhooks) -> None:
    garbled = job()
    garbled["spec"]["template"] = "pods"

    answer = webhooks.warn(garbled)

    assert (answer.is_allowed, answer.reason) == (False, "malformed")


@pytest.mark.usefixtures("limit")
def test_what_is_unknown_or_gone_is_not_looked_at(webhooks: Webhooks) -> None:
    assert webhooks.warn({**job(9), "kind": "Other"}).reason == "may_fit"
    assert webhooks.warn(None, operation="DELETE").reason == "nothing_to_decide"


def test_where_admission_is_off_nothing_is_looked_at(webhooks: Webhooks, hopper: Cluster) -> None:
    hopper.admission_mode = "off"
    hopper.save(update_fields=["admission_mode"])

    assert webhooks.warn(job(9, owner="bob")).reason == "off"
