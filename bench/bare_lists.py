"""Lists of 50 over REST beside the same rows by Django REST Framework alone.

The twin is what a project has on its first day: a model serializer with the columns of our answer,
the framework's own pages, and the middleware that Django begins a project with. Both are asked in
turns.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from bench.harness import Bound, Figure, is_smoke, measured, ratio

if TYPE_CHECKING:
    from django.db.models import Model
    from django.test import Client

TURNS: Final = 1 if is_smoke() else 20
ASKED_A_TURN: Final = 5
SPEED_MIN: Final = Decimal("0.8")
MIDDLEWARE: Final = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
urlpatterns: list[Any] = []
"""Of the twins; this module is their URL configuration."""


def list_figures(client: "Client", person: Any, addresses: Mapping[str, str]) -> Iterator[Figure]:  # noqa: ANN401 - A user.
    """Yield how fast each list is, as a share of its twin's speed.

    Args:
        client: Signed in as the person.
        person: Who sees every row.
        addresses: The address of each list, by the name of its model.
    """
    from django.apps import apps  # noqa: PLC0415 - Django is set up by now.
    from django.test import override_settings  # noqa: PLC0415 - As above.

    for label, address in addresses.items():
        rows = client.get(address).json()["results"]
        urlpatterns[:] = [_bare_route(apps.get_model(label), rows[0])]
        ours: list[Decimal] = []
        bare: list[Decimal] = []
        for _ in range(TURNS):
            ours.append(_seconds(client, address))
            with override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=MIDDLEWARE):
                bare.append(_seconds(_signed_in(person), "/bare/"))
        name = f"pages.list of {len(rows)} {label.partition('.')[2]}s to bare DRF"
        yield ratio(name, median(bare) / median(ours), Bound.AT_LEAST, SPEED_MIN)


def _seconds(client: "Client", address: str) -> Decimal:
    """Return how long some requests take, after one that is not counted."""
    client.get(address)
    with measured() as watch:
        for _ in range(ASKED_A_TURN):
            answer = client.get(address)
            assert answer.status_code == 200, answer.content
    return watch.seconds


def _signed_in(person: Any) -> "Client":  # noqa: ANN401 - A user.
    from django.test import Client  # noqa: PLC0415 - Django is set up by now.

    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(person)
    return client


def _bare_route(model: "type[Model]", row: Mapping[str, Any]) -> Any:  # noqa: ANN401 - Django's.
    """Return the twin of a list, with the columns of its answer."""
    from django.urls import path  # noqa: PLC0415 - Django is set up by now.
    from rest_framework import authentication, generics, pagination  # noqa: PLC0415 - As above.
    from rest_framework import serializers as drf  # noqa: PLC0415 - As above.

    own = {field.name for field in model._meta.fields}  # noqa: SLF001 - Documented model meta.
    columns = [name for name in row if name in own]

    class Pages(pagination.CursorPagination):
        page_size = 50
        ordering = "-pk"

    meta = type("Meta", (), {"model": model, "fields": columns})
    serializer = type("BareSerializer", (drf.ModelSerializer,), {"Meta": meta})

    class Bare(generics.ListAPIView):  # type: ignore[type-arg]
        queryset = model._default_manager.all()  # noqa: SLF001 - As above.
        serializer_class = serializer
        pagination_class = Pages
        filter_backends = ()
        throttle_classes = ()
        authentication_classes = (authentication.SessionAuthentication,)

    return path("bare/", Bare.as_view())
