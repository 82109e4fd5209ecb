"""Where a webhook is: at a URL, or behind a Service that names a host outside the cluster.

There is no network inside a simulated cluster, so a Service leads somewhere only when it is of the
type ExternalName. Its certificate is that of NAME.NAMESPACE.svc, wherever it leads.
Source: kubernetes/kube-aggregator, pkg/apiserver/resolvers.go and apiserver, pkg/util/proxy.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from simulator.kubernetes_api.errors import JSON
from simulator.kubernetes_api.resources import SERVICES
from simulator.kubernetes_api.store import ObjectStore

_PORT: Final = 443


@dataclass(frozen=True)
class Place:
    """Where to connect, and who must answer there.

    Attributes:
        name: On the certificate.
        address: Host and port to connect to.
    """

    name: str
    address: tuple[str, int]
    path: str


def place_of(store: ObjectStore, client: JSON) -> Place:
    """Return where a webhook's clientConfig leads.

    Raises:
        OSError: To no Service, or to one that leads nowhere.
    """
    if "url" in client:
        url = urlsplit(client["url"])
        host = url.hostname or ""
        return Place(host, (host, url.port or _PORT), url.path or "/")
    told = client["service"]
    name, namespace = told["name"], told["namespace"]
    service = store.get(SERVICES, (namespace, name))
    if service is None:
        raise OSError(f'service "{name}" not found')
    spec = service.get("spec") or {}
    if spec.get("type") != "ExternalName":
        raise OSError(f'no endpoints available for service "{name}"')
    address = (spec["externalName"], told.get("port", _PORT))
    return Place(f"{name}.{namespace}.svc", address, told.get("path", "/"))
