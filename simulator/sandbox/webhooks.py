"""What the sandbox needs besides rows: webhooks in its API, tokens, and a file of both."""

import json
import ssl
import sys
import urllib.error
import urllib.request
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from quotas.domain.admission.webhook_configuration import Registration, configurations
from simulator.demo.asking import token_of
from simulator.demo.plan import PLATFORM_ADMIN
from simulator.demo.private_files import write_private
from simulator.sandbox.api import SERVICE, ca_path, cluster_tokens
from simulator.sandbox.plan import LEAD, ORGANIZATION_ADMIN, SANDBOX, TAILSPIN
from simulator.sandbox.stage import admission_ca_path
from tenants.models import Cluster, Project

REQUEST_SECONDS: Final = 20
JSON = dict[str, Any]


def register_webhooks(folder: Path, *, api_url: str, admission_url: str) -> None:
    """Register our admission listener for pods with the sandbox's API, as `kubectl apply` would.

    Args:
        folder: Where the demo keeps certificates and tokens.
        api_url: Of the sandbox's API.
        admission_url: Of our listener.

    Raises:
        urllib.error.HTTPError: The API does not take them.
    """
    cluster = Cluster.objects.get(slug=SANDBOX)
    registration = Registration(
        cluster=cluster.slug,
        authority_pem=admission_ca_path(folder).read_text(encoding="utf-8"),
        url=admission_url,
        failure_policy="Ignore" if cluster.admission_on_failure == "allow" else "Fail",
        offered=tuple(sorted(cluster.offered_resources)),
        # The simulated API does not implement CEL.
        has_conditions=False,
    )
    token = cluster_tokens(folder)[SERVICE]
    trusted = ssl.create_default_context(cafile=str(ca_path(folder)))
    for document in configurations(registration):
        plural = f"{document['kind'].lower()}s"
        url = f"{api_url}/apis/{document['apiVersion']}/{plural}"
        try:
            _post(url, document, token=token, trusted=trusted)
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.CONFLICT:
                raise


def write_environment(folder: Path, *, api_url: str, public_url: str, at: datetime) -> Path:
    """Write what a person's shell needs to try the sandbox, readable by its owner only.

    Args:
        folder: Where it goes, as `sandbox.env`.
        api_url: Of the sandbox's API.
        public_url: Of our REST API.
        at: Now.
    """
    project = Project.objects.get(organization__slug=TAILSPIN.slug, slug="arm")
    found = {
        "GL_URL": public_url,
        "THEO": token_of(folder, LEAD, at=at),
        "TARA": token_of(folder, ORGANIZATION_ADMIN, at=at),
        "FRANK": token_of(folder, PLATFORM_ADMIN, at=at),
        "PROJECT": str(project.pk),
        "ORGANIZATION": str(project.organization_id),
        "KUBE": api_url,
        "KUBE_CA": str(ca_path(folder)),
        "KUBE_TOKEN": cluster_tokens(folder)[LEAD],
    }
    path = folder / "sandbox.env"
    lines = [f"export {name}={value}" for name, value in found.items()]
    lines.append(f'export PATH="{Path(sys.executable).parent}:$PATH"')
    write_private(path, "\n".join(lines))
    return path


def _post(url: str, document: JSON, *, token: str, trusted: ssl.SSLContext) -> None:
    request = urllib.request.Request(  # noqa: S310 - Our own server.
        url,
        data=json.dumps(document).encode(),
        method="POST",
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=REQUEST_SECONDS, context=trusted).close()  # noqa: S310 - As above.
