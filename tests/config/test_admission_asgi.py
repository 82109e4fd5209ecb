"""The admission server's way in: pods to the front, the rest to Django, names looked at."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.test import override_settings
from django.urls import path

from config.admission_asgi import BYTES_MAX, Doors, checking_names
from config.admission_worker import CLIENT_NAME, Application, common_name, naming
from config.admission_wsgi import PlainHandler
from quotas.webhook.answers import Answer

Message = dict[str, Any]


def echo(request: HttpRequest) -> HttpResponse:
    """Answer what was sent, and how."""
    told = {
        "body": request.body.decode(),
        "method": request.method,
        "query": request.GET.get("of", ""),
        "agent": request.headers.get("User-Agent", ""),
        "type": request.content_type,
    }
    return JsonResponse(told, status=202, headers={"X-Seen": "yes"})


urlpatterns = [path("echo", echo), path("admit/hopper/pods", echo)]


@dataclass
class Front:
    """Answers every pod the same, and keeps what it was asked."""

    asked: list[tuple[str, bytes]] = field(default_factory=list)

    async def pods(self, slug: str, body: bytes) -> Answer:
        """Return what is answered."""
        self.asked.append((slug, body))
        return Answer(HTTPStatus.OK, b'{"pods": true}')


def asked(
    application: Application,
    where: str,
    *parts: bytes,
    method: str = "POST",
    name: str | None = None,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    query: bytes = b"",
) -> tuple[int, dict[bytes, bytes], bytes]:
    """Return the status, the headers and the body that an ASGI server would send."""
    scope: Message = {
        "type": "http",
        "method": method,
        "path": where,
        "query_string": query,
        "headers": headers,
        "server": ("127.0.0.1", 8443),
        "scheme": "https",
    }
    if name is not None:
        scope[CLIENT_NAME] = name
    left = list(parts or (b"",))
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(message: Message) -> None:
        sent.append(message)

    with override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=[], DEBUG=False):
        asyncio.run(application(scope, receive, send))  # type: ignore[arg-type] # A coroutine.
    start, end = sent
    return start["status"], dict(start["headers"]), end["body"]


@pytest.fixture
def front() -> Front:
    return Front()


@pytest.fixture
def doors(front: Front) -> Doors:
    with override_settings(MIDDLEWARE=[]):
        handler = PlainHandler()
    return Doors(front, handler, ThreadPoolExecutor(1))


def test_a_pod_is_asked_about_in_front_whole(doors: Doors, front: Front) -> None:
    status, headers, body = asked(doors, "/admit/hopper/pods", b'{"a":', b" 1}")

    assert (status, body) == (200, b'{"pods": true}')
    assert headers == {b"content-type": b"application/json", b"content-length": b"14"}
    assert front.asked == [("hopper", b'{"a": 1}')]


@pytest.mark.parametrize(
    ("where", "method"), [("/echo", "POST"), ("/echo", "PUT"), ("/admit/hopper/pods", "GET")]
)
def test_everything_else_is_asked_of_django(
    doors: Doors, front: Front, where: str, method: str
) -> None:
    headers = ((b"user-agent", b"kube"), (b"content-type", b"text/x"), (b"content-length", b"999"))
    status, told, body = asked(
        doors, where, b"some", b"thing", method=method, headers=headers, query=b"of=one"
    )

    assert (status, told[b"x-seen"]) == (202, b"yes")
    assert told[b"content-length"] == str(len(body)).encode()
    assert body.decode() == (
        f'{{"body": "something", "method": "{method}", "query": "one", "agent": "kube",'
        ' "type": "text/x"}'
    )
    assert front.asked == []


@pytest.mark.parametrize(
    "where", ["/nowhere", "/admit/hopper/podsy", "/admit/a b/pods", "/admit/é/pods", "/"]
)
def test_what_is_nowhere_is_not_found(doors: Doors, front: Front, where: str) -> None:
    assert asked(doors, where)[0] == 404
    assert front.asked == []


def test_what_is_larger_than_any_review_is_not_read_to_its_end(doors: Doors, front: Front) -> None:
    half = bytes(BYTES_MAX // 2 + 1)

    status, _, body = asked(doors, "/admit/hopper/pods", half, half, half)

    assert (status, body) == (413, b"No review is as large.")
    assert front.asked == []


def test_only_http_is_answered(doors: Doors) -> None:
    async def never(*_: object) -> Message:
        raise AssertionError

    with pytest.raises(ValueError, match="not lifespan"):
        asyncio.run(doors({"type": "lifespan"}, never, never))  # type: ignore[arg-type] # As above.


def test_without_names_every_certificate_may_ask(doors: Doors) -> None:
    assert checking_names(doors, {}) is doors
    assert common_name(None) == ""


@pytest.mark.parametrize("name", [None, "", "another"])
@pytest.mark.parametrize(
    ("where", "is_let_through"),
    [
        ("/healthz", True),
        ("/readyz", True),
        ("/metrics", True),
        ("/admit/hopper/pods", False),
        ("/stamp/hopper", False),
        ("/warn/hopper", False),
        ("/admit/other/pods", False),
        ("/healthz/", False),
        ("//healthz", False),
        ("/", False),
        ("", False),
    ],
)
def test_who_shows_no_name_of_a_cluster_asks_for_none(
    doors: Doors,
    front: Front,
    where: str,
    is_let_through: bool,  # noqa: FBT001 - A table.
    name: str | None,
) -> None:
    application = checking_names(doors, {"hopper": ("", "kube-apiserver")})

    status = asked(application, where, name=name)[0]

    assert status == (404 if is_let_through else 403)
    assert front.asked == []


def test_a_certificate_asks_for_the_cluster_it_is_named_for(doors: Doors, front: Front) -> None:
    application = naming(
        checking_names(doors, {"hopper": ("x", "kube-apiserver"), "ampere": ("y",)}),
        "kube-apiserver",
    )

    assert asked(application, "/admit/hopper/pods", b"{}")[0] == 200
    # What a request says of itself is no certificate.
    status, _, body = asked(application, "/admit/ampere/pods", b"{}", name="y")
    assert status == 403
    assert body == b"The certificate of 'kube-apiserver' may not ask for cluster 'ampere'."
    assert front.asked == [("hopper", b"{}")]
