"""Claims made from templates count for the owner of the pod that asks for them."""

import pytest

from quotas.models import AdmittedPod, Reservation
from quotas.services.limits.changes import open_counter
from tenants.models import Cluster, Organization, Project
from tests.quotas.webhook.conftest import JSON, Webhooks
from tests.support.builders import AT, make_user
from tests.support.quotas.builders import make_limit
from tests.support.quotas.reviews import UID, claim, made_by, pod

pytestmark = pytest.mark.django_db
CLAIM_CONTROLLER = "system:serviceaccount:kube-system:resource-claim-controller"
TEMPLATE = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]


@pytest.fixture
def limits(acme: Organization, llm: Project) -> None:
    """Grant the project eight Large, and alice one of them."""
    for user, units in ((None, 8), (make_user("alice"), 1)):
        open_counter(limit=make_limit(acme, llm, user, units=units), at=AT)


def using(uid: str, owner: str = "") -> JSON:
    obj = pod(0, owner=owner, resourceClaims=TEMPLATE)
    return {**obj, "metadata": {**obj["metadata"], "uid": uid}}


def made_for(pod_uid: str, api_version: str = "v1", kind: str = "Pod") -> JSON:
    obj = made_by(claim(1, uid=f"claim-of-{pod_uid}"), api_version, kind)
    obj["metadata"]["ownerReferences"][0]["uid"] = pod_uid
    return obj


def counted() -> list[tuple[str, str]]:
    return list(Reservation.objects.order_by("pod_uid").values_list("pod_uid", "username"))


@pytest.mark.usefixtures("limits")
def test_three_pods_of_a_template_hold_what_their_owner_may(webhooks: Webhooks) -> None:
    answers = []
    for uid in ("one", "two", "three"):
        assert webhooks.admit(using(uid)).reason == "no_gpus"
        answers.append(webhooks.admit(made_for(uid), user=CLAIM_CONTROLLER))

    assert [answer.reason for answer in answers] == ["allowed", "limit_reached", "limit_reached"]
    assert counted() == [("claim-of-one", "alice")]


@pytest.mark.usefixtures("llm")
def test_the_stamped_owner_of_a_jobs_pod_is_kept(webhooks: Webhooks) -> None:
    made = made_by(using("one", owner="bob"), "batch/v1", "Job")
    controller = "system:serviceaccount:kube-system:job-controller"

    assert webhooks.admit(made, user=controller).is_allowed
    assert webhooks.admit(made_for("one"), user=CLAIM_CONTROLLER).is_allowed

    assert counted() == [("claim-of-one", "bob")]


@pytest.mark.usefixtures("llm")
def test_a_claim_of_a_pod_that_was_never_asked_about_is_the_default_owners(
    webhooks: Webhooks,
) -> None:
    assert webhooks.admit(made_for("one"), user=CLAIM_CONTROLLER).is_allowed
    assert counted() == [("claim-of-one", "lina")]


@pytest.mark.usefixtures("llm")
@pytest.mark.parametrize(
    ("user", "api_version", "kind"),
    [
        ("carol", "v1", "Pod"),
        (CLAIM_CONTROLLER, "example.com/v1", "Pod"),
        (CLAIM_CONTROLLER, "batch/v1", "Job"),
    ],
)
def test_only_a_controller_names_the_pod_of_a_claim(
    webhooks: Webhooks, user: str, api_version: str, kind: str
) -> None:
    webhooks.admit(using("one"))

    assert webhooks.admit(made_for("one", api_version, kind), user=user).is_allowed
    assert counted() == [("claim-of-one", "carol" if user == "carol" else "lina")]


@pytest.mark.usefixtures("llm")
def test_a_trusted_controller_names_the_pod_of_a_claim(webhooks: Webhooks, hopper: Cluster) -> None:
    hopper.trusted_controllers = ["manager"]
    hopper.save(update_fields=["trusted_controllers"])
    webhooks.admit(using("one"))

    assert webhooks.admit(made_for("one"), user="manager").is_allowed
    assert counted() == [("claim-of-one", "alice")]


@pytest.mark.usefixtures("llm")
def test_a_pod_with_claims_alone_names_no_other_owner(webhooks: Webhooks) -> None:
    refused = webhooks.admit(using(UID, owner="bob"))

    assert (refused.is_allowed, refused.reason) == (False, "forged_owner")
    assert not AdmittedPod.objects.exists()


@pytest.mark.usefixtures("llm")
def test_a_dry_run_keeps_no_owner(webhooks: Webhooks) -> None:
    assert webhooks.admit(using("one"), dryRun=True).reason == "no_gpus"
    assert not AdmittedPod.objects.exists()
