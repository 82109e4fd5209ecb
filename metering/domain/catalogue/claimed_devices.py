"""Devices of ResourceClaims: what of their attributes is kept, and the size that follows from it.

A rule may name `claim/<device class>`, or the resource under which the device plugin would offer
the device; of both kinds the first that matches decides.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from metering.domain.catalogue.sizing import Catalogue, Sized, Unsized, UnsizedCause, size_of
from metering.domain.catalogue.units import CLAIM_PREFIX, MIG_PREFIX, WHOLE_DEVICE

PRODUCT_ATTRIBUTE: Final = "productName"
KEPT_ATTRIBUTES: Final = ("type", PRODUCT_ATTRIBUTE, "profile")
"""The attributes that sizing reads, without the driver's domain."""
MIXED: Final = "mixed"
"""The `type` of several devices of one ResourceClaim that are not alike."""
_MIG: Final = "mig"


def kept_attributes(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return what sizing reads of a device; a name may carry the driver's domain before a slash."""
    plain = {name.rpartition("/")[2]: text for name, text in attributes.items()}
    return {name: plain[name] for name in KEPT_ATTRIBUTES if plain.get(name)}


def common_attributes(devices: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return what all devices of one allocation are; empty when one is not known yet."""
    if not devices or not all(devices):
        return {}
    first = devices[0]
    return dict(first) if all(device == first for device in devices) else {"type": MIXED}


def size_of_held(
    catalogue: Catalogue, *, resource: str, labels: Mapping[str, str]
) -> Sized | Unsized:
    """Return what one unit of something in the allocation ledger is, or why that is unknown.

    Args:
        catalogue: The version in force.
        resource: A resource name, or "claim/<device class>" with the number of its allocation.
        labels: What is kept with it: labels of the node, or attributes of a claim's device.
    """
    if not resource.startswith(CLAIM_PREFIX):
        return size_of(catalogue, resource=resource, labels=labels)
    device_class = resource.removeprefix(CLAIM_PREFIX).partition("#")[0]
    return size_of_device(catalogue, device_class=device_class, attributes=labels)


def size_of_device(
    catalogue: Catalogue, *, attributes: Mapping[str, str], device_class: str = ""
) -> Sized | Unsized:
    """Return what one device is, or why that is unknown; see `size_of`.

    Args:
        catalogue: The version in force.
        attributes: What is kept of the device.
        device_class: Through which class it was claimed; "" for none.
    """
    kind = attributes.get("type", "")
    if kind == MIXED:
        return Unsized(UnsizedCause.MIXED_MODELS)
    product = attributes.get(PRODUCT_ATTRIBUTE, "").replace(" ", "-")
    if kind == _MIG:
        resource = MIG_PREFIX + attributes.get("profile", "").replace("+", ".")
    else:
        resource = WHOLE_DEVICE
    labels = {f"{WHOLE_DEVICE}.product": product}
    claimed_as = f"{CLAIM_PREFIX}{device_class}" if device_class else ""
    return size_of(catalogue, resource=resource, labels=labels, claimed_as=claimed_as)
