"""Addresses of servers: what Django's URLs take, and hosts that are named alone."""

import pytest
from django.core.exceptions import ValidationError
from django.db.models import URLField

from tenants.models.addresses import SERVER_URL, ServerURLField

FINE = (
    "http://prometheus:9090",
    "https://mimir/prometheus",
    "http://prometheus.monitoring.svc:9090/path?tenant=1",
    "http://10.0.0.1:9090",
    "http://[2001:db8::1]:9090",
    "http://localhost:9090",
)
WRONG = (
    "prometheus:9090",
    "http://",
    "http://-prometheus",
    "http://prometheus-",
    "http://prometheus:port",
    "http://pro metheus",
    "http://prometheus\n:9090",
    "http://.prometheus",
    f"http://{'p' * 64}",
    "gopher://prometheus",
)


@pytest.mark.parametrize("url", FINE)
def test_an_address_of_a_server_is_taken(url: str) -> None:
    SERVER_URL(url)

    assert ServerURLField().formfield(assume_scheme="https").clean(url) == url


@pytest.mark.parametrize("url", WRONG)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValidationError):
        SERVER_URL(url)


def test_migrations_know_it_as_a_url() -> None:
    _, path, _, keywords = ServerURLField(blank=True).deconstruct()

    assert (path, keywords) == ("django.db.models.URLField", {"blank": True})
    assert isinstance(ServerURLField(), URLField)
