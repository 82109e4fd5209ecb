"""Namespaces as homes: nothing is made outside one, and each has its default account."""

from simulator.kubernetes_api.errors import forbidden, not_found
from simulator.kubernetes_api.resources import (
    NAMESPACES,
    SERVICE_ACCOUNTS,
    Resource,
)
from simulator.kubernetes_api.store import ObjectStore

DEFAULT_ACCOUNT = "default"


def refuse_without_home(store: ObjectStore, resource: Resource, namespace: str, name: str) -> None:
    """Refuse an object whose namespace is not there, or is being deleted.

    Raises:
        StatusError: 404 or 403.
    """
    if not resource.is_namespaced:
        return
    home = store.get(NAMESPACES, ("", namespace))
    if home is None:
        raise not_found(NAMESPACES.plural, namespace)
    if "deletionTimestamp" in home["metadata"]:
        why = f"unable to create new content in namespace {namespace} because it is being"
        raise forbidden(resource.qualified, name, f"{why} terminated")


def make_default_account(store: ObjectStore, namespace: str, uid: str, now: str) -> None:
    """Make the ServiceAccount that pods of a namespace have when they name none."""
    metadata = {
        "name": DEFAULT_ACCOUNT,
        "namespace": namespace,
        "uid": uid,
        "creationTimestamp": now,
    }
    store.put(SERVICE_ACCOUNTS, (namespace, DEFAULT_ACCOUNT), {"metadata": metadata})
