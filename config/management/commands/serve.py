"""`manage.py serve`: become the web server, gunicorn, with what this service needs of it."""

import os
import shutil
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - gunicorn makes its own unique file there.
METRICS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


class Command(BaseCommand):
    """Serve the admin, the API and the health endpoints; this process becomes gunicorn."""

    help = "Serve the admin and the API with gunicorn."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take where to listen and how many processes and threads to use."""
        parser.add_argument("--bind", default="127.0.0.1:8000", help="address:port")
        parser.add_argument(
            "--metrics-address",
            default="127.0.0.1",
            help="address on which METRICS_PORT answers /metrics, and nothing else",
        )
        parser.add_argument("--workers", type=int, default=2)
        parser.add_argument("--threads", type=int, default=4)

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's own signature.
        """Make the folder where processes share their counts, and become gunicorn."""
        os.environ[METRICS_VARIABLE] = str(empty_metrics_folder())
        metrics_bind = f"{options['metrics_address']}:{settings.METRICS_PORT}"
        command = gunicorn_command(**{**options, "metrics_bind": metrics_bind})
        os.execv(sys.executable, command)  # noqa: S606 - Our own program and arguments.


def gunicorn_command(
    *, bind: str, metrics_bind: str, workers: int, threads: int, **_: object
) -> list[str]:
    """Return gunicorn's command line.

    Args:
        bind: `address:port` of the site.
        metrics_bind: `address:port` of /metrics; its port is METRICS_PORT.
        workers: Processes; each can serve every request.
        threads: Threads of each process; most of a request is waiting for the database.
    """
    command = [
        *(sys.executable, "-m", "gunicorn", "config.wsgi:application"),
        *("--bind", bind, "--bind", metrics_bind, "--workers", str(workers)),
        *("--worker-class", "gthread", "--threads", str(threads)),
        *("--timeout", "60", "--graceful-timeout", "8", "--max-requests", "10000"),
        *("--max-requests-jitter", "1000", "--access-logfile", "-", "--no-control-socket"),
        *("--logger-class", "config.monitoring.logging.AccessLog"),
    ]
    if SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK):
        command += ["--worker-tmp-dir", str(SHARED_MEMORY)]
    return command


def empty_metrics_folder() -> Path:
    """Return an empty folder: counts of an earlier life would be added to this one's."""
    named = os.environ.get(METRICS_VARIABLE)
    if not named:
        return Path(tempfile.mkdtemp(prefix="gpu-ledger-metrics-"))
    folder = Path(named)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
