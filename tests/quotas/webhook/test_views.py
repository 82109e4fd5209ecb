"""The views: reviews in, reviews out, also while the ledger is away."""

import pytest
from django.conf import settings
from django.test import RequestFactory

from quotas.domain.admission.review import REVIEW_BYTES_MAX
from quotas.models import Reservation
from quotas.webhook import answers, views
from quotas.webhook.figures import REGISTRY
from tenants.models import Cluster
from tests.quotas.webhook.conftest import Webhooks
from tests.support.quotas.reviews import body, pod

pytestmark = pytest.mark.django_db
PODS = "/admit/hopper/pods"


@pytest.mark.parametrize(
    "sent",
    [b"", b"pods please", b"{}", b"[" * 5_000, body(pod(), uid="")],
    ids=["empty", "text", "object", "deep", "no_uid"],
)
def test_what_is_no_review_is_a_bad_request(webhooks: Webhooks, sent: bytes) -> None:
    answer = webhooks.send(PODS, sent)

    assert answer.status == 400
    assert answer.body["error"]
    assert Reservation.objects.count() == 0


def test_what_is_too_large_is_not_even_read(webhooks: Webhooks) -> None:
    request = RequestFactory().post(PODS, data=body(pod()), content_type="application/json")
    for length in (str(REVIEW_BYTES_MAX + 1), "", "-1", "many"):
        request.META["CONTENT_LENGTH"] = length

        assert webhooks.ask(PODS, request).status == 400


def test_only_post_asks(webhooks: Webhooks) -> None:
    assert webhooks.get(PODS).status == 405


def test_a_cluster_nobody_knows_is_not_found(webhooks: Webhooks) -> None:
    assert webhooks.send(PODS, body(pod())).status == 404


def test_a_closed_cluster_is_not_found(webhooks: Webhooks, hopper: Cluster) -> None:
    hopper.state = "closed"
    hopper.save(update_fields=["state"])

    assert webhooks.admit(pod()).status == 404


def test_it_is_ready(webhooks: Webhooks) -> None:
    assert webhooks.get("/readyz").body == {"status": "ready"}


def test_answers_tell_their_length_so_that_they_go_out_whole() -> None:
    answer = views.readyz(RequestFactory().get("/readyz"))

    assert answer.headers["Content-Length"] == str(len(answer.content))


@pytest.mark.usefixtures("llm")
def test_answers_are_counted(webhooks: Webhooks) -> None:
    labels = {"cluster": "hopper", "endpoint": "admit", "reason": "no_gpus"}
    before = REGISTRY.get_sample_value("gpu_ledger_admission_answers_total", labels) or 0

    webhooks.admit(pod(0))

    assert REGISTRY.get_sample_value("gpu_ledger_admission_answers_total", labels) == before + 1
    assert "gpu_ledger_admission_seconds_bucket" in webhooks.get("/metrics").body["text"]


def test_the_settings_are_the_terms() -> None:
    reported = answers.terms()

    assert reported.ttl_seconds == settings.RESERVATION_TTL_SECONDS
    assert reported.burst_classes == {"gpu-ledger-burst"}
    assert reported.public_url == "http://127.0.0.1:8000"
