"""`manage.py serve_admission`: who may ask, and over what."""

import http.client
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import CommandError

from config.admission_asgi import NOT_IN_FORCE
from config.admission_wsgi import admission_apps, only_admission
from config.management.commands.serve_admission import admission_command
from embedded.ports import free_port
from embedded.programs import wait_until
from simulator.kubernetes_api.access import (
    CLIENT_NAME,
    ServerCertificates,
    make_identity,
)
from tests.support.sampling import sampled

NAMES = (f"hopper=x|{CLIENT_NAME}", f"hopper=x|{CLIENT_NAME},ampere=another")
READY_SECONDS = 60


@dataclass(frozen=True)
class Running:
    """A server that runs, and what proves a client to it."""

    port: int
    probe_port: int
    secret_port: int
    identity: ServerCertificates
    process: "subprocess.Popen[bytes]"

    def answer(
        self, path: str, *, is_proven: bool, method: str = "GET", body: bytes | None = None
    ) -> tuple[int, str]:
        tls = ssl.create_default_context(cadata=self.identity.authority_pem)
        if is_proven:
            tls.load_cert_chain(
                self.identity.client_certificate_path, self.identity.client_key_path
            )
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=tls, timeout=20)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def is_up(self) -> bool:
        with suppress(OSError):
            return self.answer("/healthz", is_proven=True)[0] == 200
        return False

    def probed(self, path: str, method: str = "GET") -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.probe_port, timeout=20)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


def command(
    identity: ServerCertificates, port: int, probe_port: int = 8081, secret_port: int = 8444
) -> list[str]:
    return admission_command(
        bind=f"127.0.0.1:{port}",
        probe_bind=f"127.0.0.1:{probe_port}",
        secret_bind=f"127.0.0.1:{secret_port}",
        certificate=str(identity.certificate_path),
        key=str(identity.key_path),
        client_ca=str(identity.certificate_path.parent / "ca.crt"),
        workers=1,
        threads=2,
    )


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> ServerCertificates:
    folder = tmp_path_factory.mktemp("tls")
    made = make_identity(folder)
    (folder / "ca.crt").write_text(made.authority_pem)
    return made


@pytest.fixture(scope="module", params=NAMES)
def running(request: pytest.FixtureRequest, identity: ServerCertificates) -> Iterator[Running]:
    """Run the real server for API servers of some common names."""
    with served(request.param, identity) as server:
        yield server


@pytest.fixture(params=sampled(NAMES, every=len(NAMES)))
def ending(request: pytest.FixtureRequest, identity: ServerCertificates) -> Iterator[Running]:
    """Run a server of the test's own, which the test ends."""
    with served(request.param, identity) as server:
        yield server


@contextmanager
def served(names: str, identity: ServerCertificates) -> Iterator[Running]:
    port, probe_port, secret_port = free_port(), free_port(), free_port()
    process = subprocess.Popen(
        command(identity, port, probe_port, secret_port),
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "config.settings.test",
            "ADMISSION_CLIENT_NAMES": names,
        },
        stderr=subprocess.DEVNULL,
    )
    server = Running(port, probe_port, secret_port, identity, process)
    wait_until(server.is_up, timeout_seconds=READY_SECONDS)
    yield server
    process.terminate()
    process.wait()


def test_a_certificate_of_the_authority_asks_for_the_clusters_it_is_named_for(
    running: Running,
) -> None:
    assert running.answer("/healthz", is_proven=True)[0] == 200
    assert running.answer("/admit/hopper/pods", is_proven=True)[0] == 405
    status, reported = running.answer("/admit/ampere/pods", is_proven=True)
    assert status == 403
    assert reported == f"The certificate of '{CLIENT_NAME}' may not ask for cluster 'ampere'."
    with pytest.raises((OSError, http.client.HTTPException)):
        running.answer("/healthz", is_proven=False)


def test_a_secret_needs_no_certificate_and_its_port_answers_nothing_else(running: Running) -> None:
    on_secrets = replace(running, port=running.secret_port)
    shown = f"/secret/{'s' * 43}"

    # No ledger is there, so no secret is in force.
    for path in (f"{shown}/admit/hopper/pods", f"{shown}/stamp/hopper", f"{shown}/warn/hopper"):
        for is_proven in (False, True):
            status, reported = on_secrets.answer(path, is_proven=is_proven, method="POST", body=b"")
            assert (status, reported) == (403, NOT_IN_FORCE)
    for path in ("/healthz", "/metrics", "/admit/hopper/pods", f"{shown}/metrics", "/"):
        assert on_secrets.answer(path, is_proven=True) == (404, "")
    # Elsewhere its address is not one.
    assert running.answer(f"{shown}/admit/hopper/pods", is_proven=True)[0] == 403
    with pytest.raises((OSError, http.client.HTTPException)):
        running.answer(f"{shown}/admit/hopper/pods", is_proven=False)


def test_secrets_take_tls_and_a_port_of_their_own(identity: ServerCertificates) -> None:
    with pytest.raises(CommandError, match="--secret-bind takes an address and a port"):
        command(identity, 8443, 8081, 8081)
    with pytest.raises(CommandError, match="--secret-bind takes TLS"):
        admission_command(
            bind="127.0.0.1:8443",
            secret_bind="127.0.0.1:8444",
            workers=1,
            threads=1,
            insecure_loopback=True,
        )


def test_probes_need_no_certificate_and_see_nothing_else(running: Running) -> None:
    assert running.probed("/healthz") == (200, b'{"status": "alive"}')
    assert running.probed("/healthz", "HEAD") == (200, b"")
    assert running.probed("/metrics")[0] == 200
    assert b"gpu_ledger_admission" in running.probed("/metrics")[1]
    # No ledger is there.
    assert running.probed("/readyz")[0] == 503
    for path in ("/admit/hopper/pods", "/stamp/hopper", "/warn/hopper", "/healthz/", "/"):
        assert running.probed(path) == (404, b"")
        assert running.probed(path, "POST") == (404, b"")
    assert running.probed("/healthz", "POST") == (404, b"")


def test_what_is_no_review_is_reported_so_over_the_wire(running: Running) -> None:
    status, reported = running.answer(
        "/admit/hopper/pods", is_proven=True, method="POST", body=b"pods please"
    )

    assert (status, "no JSON" in reported) == (400, True)
    status, reported = running.answer(
        "/stamp/hopper", is_proven=True, method="POST", body=b'{"kind": "Pod"}'
    )
    assert (status, "AdmissionReview" in reported) == (400, True)


def test_a_server_that_is_reported_to_end_waits_for_no_idle_connection(
    ending: Running,
) -> None:
    tls = ssl.create_default_context(cadata=ending.identity.authority_pem)
    tls.load_cert_chain(ending.identity.client_certificate_path, ending.identity.client_key_path)
    connection = http.client.HTTPSConnection("127.0.0.1", ending.port, context=tls, timeout=20)
    connection.request("GET", "/healthz")
    assert connection.getresponse().read()

    begin = time.monotonic()
    ending.process.terminate()
    ending.process.wait()

    assert time.monotonic() - begin < 6
    connection.close()


def test_answers_tell_the_time_and_end_when_nobody_looks_after_the_process(
    ending: Running,
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", ending.probe_port, timeout=20)
    deadline = time.monotonic() + 20

    def ends() -> bool:
        connection.request("GET", "/healthz")
        response = connection.getresponse()
        response.read()
        reported = parsedate_to_datetime(response.headers["Date"])
        assert abs((datetime.now(tz=UTC) - reported).total_seconds()) < 10
        return response.headers.get("Connection") == "close"

    assert not ends()
    ending.process.kill()
    ending.process.wait()

    while not ends():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    connection.close()


def test_the_command_line_requires_a_client_certificate(identity: ServerCertificates) -> None:
    line = command(identity, 8443)

    assert line[:4] == [
        sys.executable,
        "-m",
        "gunicorn",
        "config.admission_asgi:make_application(2, is_proven=True)",
    ]
    assert line[line.index("--config") + 1] == "python:config.admission_asgi"
    assert line[line.index("--cert-reqs") + 1] == str(int(ssl.CERT_REQUIRED))
    assert line[line.index("--worker-class") + 1] == "config.admission_server.AdmissionWorker"


@pytest.mark.parametrize("probe_bind", ["10.0.0.1:8443", "10.0.0.1", ":", "10.0.0.1:http"])
def test_probes_need_a_port_of_their_own(probe_bind: str) -> None:
    with pytest.raises(CommandError, match="--probe-bind takes an address and a port"):
        admission_command(
            bind="127.0.0.1:8443",
            probe_bind=probe_bind,
            workers=1,
            threads=1,
            insecure_loopback=True,
        )


def test_without_being_reported_nothing_is_served_to_probes() -> None:
    line = admission_command(bind="127.0.0.1:80", workers=1, threads=1, insecure_loopback=True)

    assert line.count("--bind") == 1
    assert "--env" not in line


@pytest.mark.parametrize("bind", ["127.0.0.1:80", "[::1]:80", "127.1.2.3:80"])
def test_plain_http_is_served_on_loopback_when_reported_so(bind: str) -> None:
    line = admission_command(bind=bind, workers=1, threads=1, insecure_loopback=True)

    assert "--certfile" not in line


@pytest.mark.parametrize("bind", ["0.0.0.0:80", "10.0.0.1:80", "localhost:80", ":80"])
def test_plain_http_is_served_to_nobody_else(bind: str) -> None:
    with pytest.raises(CommandError, match="loopback"):
        admission_command(bind=bind, workers=1, threads=1, insecure_loopback=True)


def test_without_files_nothing_is_served(identity: ServerCertificates, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="needed"):
        admission_command(bind="127.0.0.1:80", workers=1, threads=1)
    with pytest.raises(CommandError, match="Cannot read"):
        admission_command(
            bind="127.0.0.1:80",
            certificate=str(tmp_path / "none"),
            key=str(identity.key_path),
            client_ca=str(identity.certificate_path),
            workers=1,
            threads=1,
        )


def test_neither_the_command_nor_the_server_loads_what_only_pages_need() -> None:
    # A process without pages starts in a third of the time.
    program = (
        "import os, sys\n"
        "os.execv = lambda *_: print(*{one.partition('.')[0] for one in sys.modules})\n"
        "sys.argv = ['manage.py', 'serve_admission', '--insecure-loopback']\n"
        "import manage\n"
        "manage.main()\n"
        "from config.admission_asgi import load\n"
        "load()\n"
        "print(*{one.partition('.')[0] for one in sys.modules})\n"
        "print('django.contrib.admin.options' in sys.modules)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings.test"},
    )

    command, server, has_admin = done.stdout.splitlines()
    assert set(command.split()).isdisjoint({"psycopg", "pydantic", "tenants", "uvicorn"})
    assert set(server.split()).isdisjoint({"celery", "rest_framework", "unfold"})
    assert set(server.split()) >= {"psycopg", "tenants", "metering", "quotas", "django"}
    assert has_admin == "False"


def test_admission_has_every_app_with_tables_and_those_of_no_page() -> None:
    apps = [
        "config.admin_site.AdminSiteConfig",
        "django.contrib.admin",
        "tenants",
        "rest_framework",
        "quotas",
        "config",
    ]

    assert admission_apps(apps) == ["tenants", "quotas"]


def test_connections_of_admission_stay_and_set_nothing_in_their_session() -> None:
    default: dict[str, Any] = {"ENGINE": "x", "OPTIONS": {"sslmode": "require"}}

    reported = only_admission({"default": default, "owner": {}})

    assert reported["MIDDLEWARE"] == []
    assert reported["ROOT_URLCONF"] == "config.admission_urls"
    made = reported["DATABASES"]["default"]
    assert made["OPTIONS"] == {
        "sslmode": "require",
        "connect_timeout": 2,
        "application_name": "gpu-ledger-admission",
    }
    assert (made["CONN_HEALTH_CHECKS"], made["CONN_MAX_AGE"]) == (False, None)
    assert default["OPTIONS"] == {"sslmode": "require"}
