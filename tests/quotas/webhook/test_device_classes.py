"""Pods that request the devices of a class by the resource name that the class gives them."""

import pytest

from metering.models import DeviceClass
from quotas.models import Reservation
from quotas.services.limits.changes import open_counter
from tenants.models import Cluster, Organization, Project
from tests.quotas.webhook.conftest import JSON, Webhooks
from tests.support.builders import AT
from tests.support.quotas.builders import make_limit
from tests.support.quotas.reviews import UID, container, job, pod

pytestmark = pytest.mark.django_db


@pytest.fixture
def classes(acme: Organization, llm: Project, hopper: Cluster) -> None:
    """Grant four Large on a cluster with three classes."""
    open_counter(limit=make_limit(acme, llm, units=4), at=AT)
    for name, resource in (
        ("gpu.example.com", "example.com/h100"),
        ("fpga.example.com", "example.com/fpga"),
        ("rdma.example.com", "example.com/nic"),
    ):
        DeviceClass.objects.create(
            cluster=hopper, name=name, extended_resource=resource, created_at=AT
        )


def asking(resource: str, units: int = 1) -> JSON:
    return pod(0, containers=[container("main", **{resource: units})])


@pytest.mark.usefixtures("classes")
def test_a_name_of_a_class_counts_as_the_class(webhooks: Webhooks) -> None:
    assert webhooks.admit(asking("example.com/h100", 3)).reason == "allowed"

    rows = Reservation.objects.values_list("pod_uid", "resource", "units", "size")
    assert list(rows) == [(UID, "claim/gpu.example.com", 3, "large")]


@pytest.mark.usefixtures("classes")
def test_more_than_the_limit_is_refused(webhooks: Webhooks) -> None:
    refused = webhooks.admit(asking("example.com/h100", 5))

    assert (refused.is_allowed, refused.reason) == (False, "limit_reached")


@pytest.mark.usefixtures("classes")
@pytest.mark.parametrize(
    ("resource", "reason"),
    [
        ("example.com/fpga", "unknown_device"),
        ("example.com/nic", "no_gpus"),
        ("example.com/other", "no_gpus"),
    ],
)
def test_what_no_rule_sizes_is_refused_and_what_is_no_device_passes(
    webhooks: Webhooks, resource: str, reason: str
) -> None:
    assert webhooks.admit(asking(resource)).reason == reason
    assert not Reservation.objects.exists()


@pytest.mark.usefixtures("classes")
def test_a_job_that_could_never_start_is_refused_by_the_name_of_a_class(
    webhooks: Webhooks,
) -> None:
    made = job()
    made["spec"]["template"]["spec"]["containers"] = [container("main", **{"example.com/h100": 5})]

    assert webhooks.warn(made).reason == "never_fits"
