"""The admission server's way in: endpoints to the front, the rest to Django, names looked at."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.test import override_settings
from django.urls import path

from config.admission_asgi import AdmissionEndpoints, checking_clients
from config.admission_protocol import CLIENT_NAME, Application, common_name, only_secrets
from config.admission_wsgi import PlainHandler
from quotas.domain.admission.review import REVIEW_BYTES_MAX
from quotas.webhook.answers import WebhookResponse

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]


def echo(request: HttpRequest) -> HttpResponse:
    """Answer what was sent, and how."""
    reported = {
        "body": request.body.decode(),
        "method": request.method,
        "query": request.GET.get("of", ""),
        "agent": request.headers.get("User-Agent", ""),
        "type": request.content_type,
    }
    return JsonResponse(reported, status=202, headers={"X-Seen": "yes"})


urlpatterns = [path("echo", echo), path("admit/hopper/pods", echo)]


@dataclass
class Front:
    """Answers every endpoint the same, and keeps what it was asked."""

    asked: list[tuple[str, str, bytes]] = field(default_factory=list)

    async def answer(self, client_for: str, slug: str, body: bytes) -> WebhookResponse:
        """Return what is answered."""
        self.asked.append((client_for, slug, body))
        return WebhookResponse(HTTPStatus.OK, b'{"pods": true}')


def scope_of(where: str, method: str = "POST", **more: object) -> Message:
    return {
        "type": "http",
        "method": method,
        "path": where,
        "query_string": b"",
        "headers": (),
        "server": ("127.0.0.1", 8443),
        "scheme": "https",
        **more,
    }


def asked(
    application: Application, scope: Message, *parts: bytes
) -> tuple[int, dict[bytes, bytes], bytes]:
    """Return the status, the headers and the body that an ASGI server would send."""
    left = list(parts or (b"",))

    async def receive() -> Message:
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    start, end = answered(application, scope, receive)
    return start["status"], dict(start["headers"]), end["body"]


def answered(application: Application, scope: Message, receive: Receive) -> list[Message]:
    """Return everything that is sent."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    with override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=[], DEBUG=False):
        asyncio.run(application(scope, receive, send))  # type: ignore[arg-type] # A coroutine.
    return sent


@pytest.fixture
def front() -> Front:
    return Front()


@pytest.fixture
def webhooks(front: Front) -> AdmissionEndpoints:
    with override_settings(MIDDLEWARE=[]):
        handler = PlainHandler()
    return AdmissionEndpoints(front, handler, ThreadPoolExecutor(1))


@pytest.mark.parametrize(
    ("where", "client_for"),
    [("/admit/hopper/pods", "admit"), ("/stamp/hopper", "stamp"), ("/warn/hopper", "warn")],
)
def test_a_endpoint_is_asked_in_front_with_the_whole_body(
    webhooks: AdmissionEndpoints, front: Front, where: str, client_for: str
) -> None:
    status, headers, body = asked(webhooks, scope_of(where), b'{"a":', b" 1}")

    assert (status, body) == (200, b'{"pods": true}')
    assert headers == {b"content-type": b"application/json", b"content-length": b"14"}
    assert front.asked == [(client_for, "hopper", b'{"a": 1}')]


@pytest.mark.parametrize(
    ("where", "method"), [("/echo", "POST"), ("/echo", "PUT"), ("/admit/hopper/pods", "GET")]
)
def test_everything_else_is_asked_of_django(
    webhooks: AdmissionEndpoints, front: Front, where: str, method: str
) -> None:
    headers = ((b"user-agent", b"kube"), (b"content-type", b"text/x"), (b"content-length", b"999"))
    scope = scope_of(where, method, headers=headers, query_string=b"of=one")
    status, reported, body = asked(webhooks, scope, b"some", b"thing")

    assert (status, reported[b"x-seen"]) == (202, b"yes")
    assert reported[b"content-length"] == str(len(body)).encode()
    assert body.decode() == (
        f'{{"body": "something", "method": "{method}", "query": "one", "agent": "kube",'
        ' "type": "text/x"}'
    )
    assert front.asked == []


@pytest.mark.parametrize(
    "where",
    ["/nowhere", "/admit/hopper/podsy", "/admit/a b/pods", "/admit/é/pods", "/stamp/a/b", "/"],
)
def test_what_is_nowhere_is_not_found(
    webhooks: AdmissionEndpoints, front: Front, where: str
) -> None:
    assert asked(webhooks, scope_of(where))[0] == 404
    assert front.asked == []


def test_it_lives_however_long_others_wait(front: Front) -> None:
    """No thread is asked: there is none."""
    threads = ThreadPoolExecutor(1)
    threads.shutdown()
    webhooks = AdmissionEndpoints(front, PlainHandler(), threads)

    assert asked(webhooks, scope_of("/healthz", "GET"))[::2] == (200, b'{"status": "alive"}')


def test_what_is_larger_than_any_review_is_not_read_to_its_end(
    webhooks: AdmissionEndpoints, front: Front
) -> None:
    half = bytes(REVIEW_BYTES_MAX // 2 + 1)

    status, _, body = asked(webhooks, scope_of("/admit/hopper/pods"), half, half, half)

    assert (status, body) == (413, b"No review is as large.")
    assert front.asked == []


def test_bodies_that_come_at_the_same_time_are_bounded_together(
    webhooks: AdmissionEndpoints, front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("config.admission_asgi.READING_BYTES_MAX", 10)

    assert asked(webhooks, scope_of("/stamp/hopper"), b"12345", b"678901")[0] == 503
    # What was refused, and what was answered, is not kept.
    assert asked(webhooks, scope_of("/stamp/hopper"), b"12345", b"67890")[0] == 200
    assert asked(webhooks, scope_of("/stamp/hopper"), b"12345", b"67890")[0] == 200
    assert len(front.asked) == 2


def test_a_client_that_goes_away_has_asked_nothing(
    webhooks: AdmissionEndpoints, front: Front
) -> None:
    messages: list[Message] = [
        {"type": "http.request", "body": b"{}", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return messages.pop(0)

    assert answered(webhooks, scope_of("/admit/hopper/pods"), receive) == []
    assert front.asked == []


def test_only_http_is_answered(webhooks: AdmissionEndpoints) -> None:
    async def connect() -> Message:
        return {"type": "websocket.connect"}

    with pytest.raises(ValueError, match="not websocket"):
        answered(webhooks, {"type": "websocket"}, connect)


async def may_ask(cluster: str, secret: str) -> bool:
    return (cluster, secret) == ("hopper", SHOWN)


SHOWN = "s" * 43


@pytest.mark.parametrize(
    ("where", "status"),
    [
        (f"/secret/{SHOWN}/admit/hopper/pods", 200),
        (f"/secret/{SHOWN}/stamp/hopper", 200),
        (f"/secret/{SHOWN}/admit/ampere/pods", 403),
        (f"/secret/{'t' * 43}/admit/hopper/pods", 403),
        (f"/secret/{SHOWN}x/admit/hopper/pods", 404),
        (f"/secret/{SHOWN}/admit/hopper/pods/", 404),
        (f"/secret/{SHOWN}/readyz", 404),
        ("/admit/hopper/pods", 404),
        ("/healthz", 404),
        ("/metrics", 404),
    ],
)
def test_on_its_port_a_secret_asks_for_its_own_cluster_alone(
    webhooks: AdmissionEndpoints, front: Front, where: str, status: int
) -> None:
    application = only_secrets(checking_clients(webhooks, {"hopper": ("",)}, may_ask))

    # A certificate that a client shows here was not verified.
    found, _, body = asked(application, scope_of(where, **{CLIENT_NAME: "hopper"}), b"{}")

    assert found == status
    assert len(front.asked) == (status == 200)
    assert SHOWN.encode() not in body


def test_without_a_setting_a_certificate_asks_only_for_the_cluster_of_its_name(
    webhooks: AdmissionEndpoints, front: Front
) -> None:
    application = checking_clients(webhooks, {"ampere": ("apiserver",)}, may_ask)
    shown = {CLIENT_NAME: "hopper"}

    assert asked(application, scope_of("/admit/hopper/pods", **shown), b"{}")[0] == 200
    assert asked(application, scope_of("/admit/ampere/pods", **shown), b"{}")[0] == 403
    assert asked(application, scope_of("/admit/volta/pods", **shown), b"{}")[0] == 403
    assert front.asked == [("admit", "hopper", b"{}")]
    assert common_name(None) == ""


@pytest.mark.parametrize("name", [None, "", "another"])
@pytest.mark.parametrize(
    ("where", "status"),
    [
        ("/healthz", 200),
        ("/readyz", 404),
        ("/metrics", 404),
        ("/admit/hopper/pods", 403),
        ("/stamp/hopper", 403),
        ("/warn/hopper", 403),
        ("/admit/other/pods", 403),
        ("/healthz/", 403),
        ("//healthz", 403),
        ("/", 403),
        ("", 403),
    ],
)
def test_who_shows_no_name_of_a_cluster_asks_for_none(
    webhooks: AdmissionEndpoints, front: Front, where: str, status: int, name: str | None
) -> None:
    application = checking_clients(webhooks, {"hopper": ("", "kube-apiserver")}, may_ask)
    shown = {} if name is None else {CLIENT_NAME: name}

    assert asked(application, scope_of(where, "GET", **shown))[0] == status
    assert asked(application, scope_of(where, "POST", **shown))[0] in {status, 404}
    assert front.asked == []


def test_a_certificate_asks_for_the_cluster_it_is_named_for(
    webhooks: AdmissionEndpoints, front: Front
) -> None:
    names = {"hopper": ("x", "kube-apiserver"), "ampere": ("y",)}
    application = checking_clients(webhooks, names, may_ask)
    shown = {CLIENT_NAME: "kube-apiserver"}

    assert asked(application, scope_of("/admit/hopper/pods", **shown), b"{}")[0] == 200
    status, _, body = asked(application, scope_of("/admit/ampere/pods", **shown), b"{}")
    assert status == 403
    assert body == b"The certificate of 'kube-apiserver' may not ask for cluster 'ampere'."
    assert front.asked == [("admit", "hopper", b"{}")]
