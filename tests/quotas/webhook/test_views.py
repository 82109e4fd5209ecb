"""The views: reviews in, reviews out, also while the ledger is away."""

import pytest
from django.conf import settings
from django.test import RequestFactory

from quotas.domain.admission.review import REVIEW_BYTES_MAX
from quotas.models import Reservation
from quotas.webhook import answers, views
from quotas.webhook.figures import REGISTRY
from tenants.models import Cluster
from tests.quotas.webhook.conftest import Doors
from tests.support.quotas.reviews import body, pod

pytestmark = pytest.mark.django_db
PODS = "/admit/hopper/pods"


@pytest.mark.parametrize(
    "sent",
    [b"", b"pods please", b"{}", b"[" * 5_000, body(pod(), uid="")],
    ids=["empty", "text", "object", "deep", "no_uid"],
)
def test_what_is_no_review_is_a_bad_request(doors: Doors, sent: bytes) -> None:
    answer = doors.send(PODS, sent)

    assert answer.status == 400
    assert answer.body["error"]
    assert Reservation.objects.count() == 0


def test_what_is_too_large_is_not_even_read(doors: Doors) -> None:
    request = RequestFactory().post(PODS, data=body(pod()), content_type="application/json")
    for length in (str(REVIEW_BYTES_MAX + 1), "", "-1", "many"):
        request.META["CONTENT_LENGTH"] = length

        assert doors.ask(PODS, request).status == 400


def test_only_post_asks(doors: Doors) -> None:
    assert doors.get(PODS).status == 405


def test_a_cluster_nobody_knows_is_not_found(doors: Doors) -> None:
    assert doors.send(PODS, body(pod())).status == 404


def test_a_closed_cluster_is_not_found(doors: Doors, hopper: Cluster) -> None:
    hopper.state = "closed"
    hopper.save(update_fields=["state"])

    assert doors.admit(pod()).status == 404


def test_it_is_ready(doors: Doors) -> None:
    assert doors.get("/readyz").body == {"status": "ready"}


def test_answers_tell_their_length_so_that_they_go_out_whole() -> None:
    answer = views.readyz(RequestFactory().get("/readyz"))

    assert answer.headers["Content-Length"] == str(len(answer.content))


@pytest.mark.usefixtures("llm")
def test_answers_are_counted(doors: Doors) -> None:
    labels = {"cluster": "hopper", "endpoint": "admit", "reason": "no_gpus"}
    before = REGISTRY.get_sample_value("gpu_ledger_admission_answers_total", labels) or 0

    doors.admit(pod(0))

    assert REGISTRY.get_sample_value("gpu_ledger_admission_answers_total", labels) == before + 1
    assert "gpu_ledger_admission_seconds_bucket" in doors.get("/metrics").body["text"]


def test_the_settings_are_the_terms() -> None:
    told = answers.terms()

    assert told.ttl_seconds == settings.RESERVATION_TTL_SECONDS
    assert told.burst_classes == {"gpu-ledger-burst"}
    assert told.public_url == "http://127.0.0.1:8000"
