"""`manage.py serve_admission`: become the server of the admission webhooks."""

import ipaddress
import os
import ssl
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from config.management.commands.serve import (
    METRICS_VARIABLE,
    SHARED_MEMORY,
    empty_metrics_folder,
)

PROBE_PORT = "ADMISSION_PROBE_PORT"
"""The variable that names the port of probes, where there is one: they show no certificate."""
SECRET_PORT = "ADMISSION_SECRET_PORT"  # noqa: S105 - A name, and no secret.
"""The variable that names the port for API servers that show a secret instead of a certificate."""
KEEP_ALIVE_SECONDS = 100
"""API servers keep connections for 90 s; closing one at the same time loses a request."""
GRACEFUL_SECONDS = 12
"""A stopping process announces it for one second, and the longest request takes nine."""


class Command(BaseCommand):
    """Serve the admission webhooks; this process becomes gunicorn."""

    help = "Serve the admission webhooks with gunicorn, over TLS with client certificates."
    # They take seconds, are of the site and not of this server, and run with every migration.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the arguments: address, server certificate and client CA."""
        parser.add_argument("--bind", default="127.0.0.1:8443", help="address:port")
        parser.add_argument("--certificate", default="", help="PEM, with its chain")
        parser.add_argument("--key", default="", help="PEM")
        parser.add_argument("--client-ca", default="", help="PEM that signs API servers' own")
        parser.add_argument(
            "--probe-bind",
            default="",
            help="address:port of /healthz, /readyz and /metrics over plain HTTP",
        )
        parser.add_argument(
            "--secret-bind",
            default="",
            help="address:port for API servers without a certificate, by the secret in their path",
        )
        parser.add_argument("--workers", type=int, default=2)
        parser.add_argument("--threads", type=int, default=8)
        parser.add_argument(
            "--insecure-loopback",
            action="store_true",
            help="plain HTTP, on a loopback address only",
        )

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's own signature.
        """Refuse what is not safe, and become gunicorn."""
        command = admission_command(**options)
        os.environ[METRICS_VARIABLE] = str(empty_metrics_folder())
        os.execv(sys.executable, command)  # noqa: S606 - Our own program and arguments.


def admission_command(  # noqa: PLR0913 - One per option.
    *,
    bind: str,
    certificate: str = "",
    key: str = "",
    client_ca: str = "",
    probe_bind: str = "",
    secret_bind: str = "",
    workers: int,
    threads: int,
    insecure_loopback: bool = False,
    **_: object,
) -> list[str]:
    """Return gunicorn's command line.

    Args:
        bind: `address:port`.
        certificate: File of the server's certificate.
        key: File of its key.
        client_ca: File of the authority that signs the certificates of API servers.
        probe_bind: `address:port` for probes and Prometheus, which show no certificate; or "".
        secret_bind: `address:port` for managed API servers, which show a secret instead; or "".
        workers: Processes.
        threads: Of each process, for what waits for the database by itself.
        insecure_loopback: Whether plain HTTP is served, on a loopback address.

    Raises:
        CommandError: A file is missing, plain HTTP would be served to others, or probes or
            secrets have no port of their own.
    """
    application = f"make_application({threads}, is_proven={not insecure_loopback})"
    command = [
        *(sys.executable, "-m", "gunicorn", f"config.admission_asgi:{application}"),
        *("--config", "python:config.admission_asgi"),
        *("--bind", bind, *_others(bind, probe_bind, secret_bind), "--workers", str(workers)),
        *("--worker-class", "config.admission_server.AdmissionWorker", "--timeout", "30"),
        *("--keep-alive", f"{KEEP_ALIVE_SECONDS}", "--graceful-timeout", f"{GRACEFUL_SECONDS}"),
        "--no-control-socket",
    ]
    if SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK):
        command += ["--worker-tmp-dir", str(SHARED_MEMORY)]
    if secret_bind and insecure_loopback:
        raise CommandError("--secret-bind takes TLS: a secret is sent with each request.")
    return command + _security(
        bind, files=(certificate, key, client_ca), is_plain=insecure_loopback
    )


def _others(bind: str, probe_bind: str, secret_bind: str) -> list[str]:
    """Return the options of the ports beside the first, which processes tell apart by number."""
    options = []
    taken = {bind.rpartition(":")[2]}
    ports = (("--probe-bind", PROBE_PORT, probe_bind), ("--secret-bind", SECRET_PORT, secret_bind))
    for option, variable, address in ports:
        port = address.rpartition(":")[2]
        if address and (not port.isdecimal() or port in taken):
            raise CommandError(
                f"{option} takes an address and a port that no other option has, such as "
                "0.0.0.0:8081."
            )
        if address:
            taken.add(port)
            options += ["--bind", address, "--env", f"{variable}={port}"]
    return options


def _security(bind: str, *, files: tuple[str, str, str], is_plain: bool) -> list[str]:
    if is_plain:
        if not _is_loopback(bind):
            raise CommandError("--insecure-loopback takes a loopback address, such as 127.0.0.1.")
        return []
    if not all(files):
        raise CommandError("--certificate, --key and --client-ca are needed.")
    certificate, key, authority = files
    missing = [name for name in files if not os.access(name, os.R_OK)]
    if missing:
        raise CommandError(f"Cannot read {', '.join(missing)}.")
    required = str(int(ssl.CERT_REQUIRED))
    return [
        *("--certfile", certificate, "--keyfile", key),
        *("--ca-certs", authority, "--cert-reqs", required),
    ]


def _is_loopback(bind: str) -> bool:
    host = bind.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
