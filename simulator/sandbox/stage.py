"""Opening the sandbox: its watch and the admission listener."""

import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

from embedded.programs import Program
from embedded.stack import Stack
from embedded.supervisor import PlainService
from simulator.kubernetes_api.access import (
    CLIENT_NAME,
    HOST,
    ServerCertificates,
    make_identity,
)
from simulator.sandbox.api import ca_path
from simulator.sandbox.plan import SANDBOX


def start_sandbox(stack: Stack, folder: Path, *, identity: ServerCertificates, port: int) -> None:
    """Start what watches the sandbox and what admits its pods.

    Args:
        stack: With its database and web server started.
        folder: Where the demo keeps its files.
        identity: The admission listener's certificate.
        port: Where it is to answer.

    Raises:
        EmbeddedServerError: Something does not start.
    """
    watch = stack.python_program(f"watch-{SANDBOX}", "manage.py", "watch_cluster", SANDBOX)
    # The other clusters' watch plays the month's scenario; this one listens to a real API.
    real = {"CLUSTER_WATCH": "kubernetes", "CLUSTER_WATCH_OPTIONS": "{}"}
    stack.start(replace(watch, environment={**watch.environment, **real}))
    admission = _admission(stack, folder, identity=identity, port=port)
    stack.start(PlainService(admission, answers=lambda: _listens(port)))


def make_admission_identity(folder: Path) -> ServerCertificates:
    """Make the certificate of the admission listener, and keep what signs it with the demo's."""
    identity = make_identity(folder / "admission")
    admission_ca_path(folder).write_text(identity.authority_pem, encoding="utf-8")
    return identity


def admission_ca_path(folder: Path) -> Path:
    """Return where the authority is that signs the admission listener's certificate."""
    return folder / "admission" / "ca.crt"


def _admission(stack: Stack, folder: Path, *, identity: ServerCertificates, port: int) -> Program:
    listen = ("--bind", f"{HOST}:{port}", "--workers", "1")
    proof = ("--certificate", str(identity.certificate_path), "--key", str(identity.key_path))
    # The sandbox's API proves itself with a certificate of its own authority.
    trusted = ("--client-ca", str(ca_path(folder)))
    program = stack.python_program(
        "admission", "manage.py", "serve_admission", *listen, *proof, *trusted
    )
    # A server empties its folder of counts when it starts; the web server keeps another.
    own = {
        "PROMETHEUS_MULTIPROC_DIR": str(folder / "admission" / "metrics"),
        "ADMISSION_CLIENT_NAMES": f"{SANDBOX}={CLIENT_NAME}",
    }
    return replace(program, environment={**program.environment, **own})


def _listens(port: int) -> bool:
    """Whether something answers there; that it asks for a certificate is an answer."""
    try:
        urllib.request.urlopen(f"https://{HOST}:{port}/healthz", timeout=2).close()
    except urllib.error.URLError as error:
        return not isinstance(error.reason, ConnectionRefusedError | TimeoutError)
    except OSError:
        return False
    return True
