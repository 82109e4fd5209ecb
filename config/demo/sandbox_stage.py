"""Opening the sandbox: its watch, the admission listener, and the webhooks that lead there."""

import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Final

from config.demo.sandbox import SANDBOX
from config.demo.sandbox_api import ca_path
from config.embedded.programs import EmbeddedServerError, Program, wait_until
from config.embedded.stack import Stack
from metering.adapters.simulated_cluster.kubernetes_api.tls import HOST, make_identity

ADMISSION_SECONDS_MAX: Final = 60


def start_sandbox(stack: Stack, folder: Path) -> None:
    """Start what watches the sandbox and what admits its pods, and tell its API to ask.

    Args:
        stack: With its database and web server started.
        folder: Where the demo keeps its files.

    Raises:
        EmbeddedServerError: Something does not start.
    """
    watch = stack.python_program(f"watch-{SANDBOX}", "manage.py", "watch_cluster", SANDBOX)
    # The other clusters' watch plays the month's scenario; this one listens to a real API.
    real = {"CLUSTER_WATCH": "kubernetes", "CLUSTER_WATCH_OPTIONS": "{}"}
    stack.start(replace(watch, environment={**watch.environment, **real}))
    port = stack.take_port("admission")
    stack.start(_admission(stack, folder, port=port))
    if not wait_until(lambda: _listens(port), timeout_seconds=ADMISSION_SECONDS_MAX):
        raise EmbeddedServerError(f"Admission does not answer; see {stack.log('admission')}.")
    stack.run_command("demo_step", "sandbox", f"--admission=https://{HOST}:{port}")


def admission_ca_path(folder: Path) -> Path:
    """Return where the authority is that signs the admission listener's certificate."""
    return folder / "admission" / "ca.crt"


def _admission(stack: Stack, folder: Path, *, port: int) -> Program:
    identity = make_identity(folder / "admission")
    admission_ca_path(folder).write_text(identity.authority_pem, encoding="utf-8")
    listen = ("--bind", f"{HOST}:{port}", "--workers", "1")
    proof = ("--certificate", str(identity.certificate_path), "--key", str(identity.key_path))
    # The sandbox's API proves itself with a certificate of its own authority.
    trusted = ("--client-ca", str(ca_path(folder)))
    program = stack.python_program(
        "admission", "manage.py", "serve_admission", *listen, *proof, *trusted
    )
    # A server empties its folder of counts when it starts; the web server keeps another.
    counts = {"PROMETHEUS_MULTIPROC_DIR": str(folder / "admission" / "metrics")}
    return replace(program, environment={**program.environment, **counts})


def _listens(port: int) -> bool:
    """Whether something answers there; that it asks for a certificate is an answer."""
    try:
        urllib.request.urlopen(f"https://{HOST}:{port}/healthz", timeout=2).close()
    except urllib.error.URLError as error:
        return not isinstance(error.reason, ConnectionRefusedError | TimeoutError)
    except OSError:
        return False
    return True
