"""Bare Django views, as fast as Django can be: what admission is held against.

They have no middleware, and are served by gunicorn's threads, which serve Django faster than its
own handler for ASGI does. One reads the body and answers. The other also changes one row of the
ledger, as lightly as admission does: what any view costs that leaves a trace.
"""

import json
import os
from uuid import UUID

from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.urls import path

from config.admission_wsgi import only_admission

DATABASE_VARIABLE = "BENCH_DATABASE"
"""The variable that holds Django's settings of the database, as JSON."""
ANSWER = b'{"response": {"uid": "", "allowed": true}}'


def bare(request: HttpRequest) -> HttpResponse:
    """Read the body and answer the same to everybody."""
    len(request.body)
    headers = {"Content-Length": str(len(ANSWER))}
    return HttpResponse(ANSWER, content_type="application/json", headers=headers)


def one_row(request: HttpRequest, limit_id: UUID) -> HttpResponse:
    """Read the body, update one counter to its own value, and return a constant response."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE quotas_quotacounter SET reserved_units = reserved_units WHERE limit_id = %s",
            [limit_id],
        )
    return bare(request)


urlpatterns = [path("bare", bare), path("one-row/<uuid:limit_id>", one_row), path("readyz", bare)]


def make_application() -> object:
    """Return the application, with this module as its URLs and no middleware."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.development")
    import django  # noqa: PLC0415 - Settings are set first.
    from django.conf import settings  # noqa: PLC0415 - As above.
    from django.core.handlers.wsgi import WSGIHandler  # noqa: PLC0415 - As above.

    databases = only_admission(settings.DATABASES)["DATABASES"]
    # Admission does not wait for fsync either.
    databases["default"]["OPTIONS"]["options"] = "-c synchronous_commit=off"
    settings.DATABASES = databases
    settings.MIDDLEWARE = []
    settings.ROOT_URLCONF = "bench.bare"
    django.setup(set_prefix=False)
    return WSGIHandler()


def one_query(request: HttpRequest) -> HttpResponse:
    """Ask the database for a constant."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return bare(request)


def make_small_application() -> object:
    """Return a Django application that has nothing but a database and a view."""
    import django  # noqa: PLC0415 - Settings are set first.
    from django.conf import settings  # noqa: PLC0415 - As above.
    from django.core.handlers.wsgi import WSGIHandler  # noqa: PLC0415 - As above.

    settings.configure(
        ALLOWED_HOSTS=["127.0.0.1"],
        DATABASES={"default": json.loads(os.environ[DATABASE_VARIABLE])},
        ROOT_URLCONF=(path("readyz", one_query),),
    )
    django.setup(set_prefix=False)
    return WSGIHandler()
