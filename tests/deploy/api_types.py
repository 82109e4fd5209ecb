"""Holds objects of Kubernetes against the types of its API, as the official client has them."""

from typing import Any, Final

from kubernetes import client
from pydantic import ValidationError

OF_OPERATORS: Final = {
    "Certificate": "cert-manager.io/v1",
    "Issuer": "cert-manager.io/v1",
    "ExternalSecret": "external-secrets.io/v1",
    "PrometheusRule": "monitoring.coreos.com/v1",
    "ServiceMonitor": "monitoring.coreos.com/v1",
    "ScaledObject": "keda.sh/v1alpha1",
}
"""Kinds that the client has no types of."""


def problems(body: dict[str, Any]) -> list[str]:
    """Return the fields of an object that the API does not know, lacks, or has in another type."""
    kind, version = body["kind"], body["apiVersion"]
    title = f"{kind} {body['metadata']['name']}"
    if kind in OF_OPERATORS:
        return [] if OF_OPERATORS[kind] == version else [f"{title}: {version}"]
    model = getattr(client, f"{version.rpartition('/')[2].capitalize()}{kind}", None)
    if model is None:
        return [f"{title}: the API has none of {version}"]
    try:
        model.model_validate(body)
    except ValidationError as error:
        return [f"{title}.{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
    return []
