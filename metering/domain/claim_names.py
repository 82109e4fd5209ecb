"""Claim names: how a usage record names the claim it is a part of, and which allocation that is.

A claim is one allocation for each device class, and its parts are records of many pods. Every such
record has the resource "claim/<claim's uid>/<class>", so that it is the same whatever else becomes
known of the claim; neither a uid nor a class has a slash.
"""

from metering.domain.pod_life import CLAIM_PREFIX


def record_resource(*, claim_uid: str, resource: str) -> str:
    """Return what the records of a claim's allocation name as their resource.

    Args:
        claim_uid: The claim's.
        resource: The allocation's, "claim/<class>"; from the second one on with "#<n>".
    """
    return f"{CLAIM_PREFIX}{claim_uid}/{resource.removeprefix(CLAIM_PREFIX)}"


def allocation_key(*, uid: str, resource: str) -> tuple[str, str]:
    """Return the uid and the resource of the allocation that a usage record is of.

    A pod's record is of its own; a part of a claim is of the claim's, whichever pod it is billed
    to.
    """
    claim_uid, slash, device_class = resource.removeprefix(CLAIM_PREFIX).partition("/")
    if resource.startswith(CLAIM_PREFIX) and slash:
        return claim_uid, f"{CLAIM_PREFIX}{device_class}"
    return uid, resource


def offered_resource(resource: str) -> str:
    """Return as what nodes offer a resource: a claim's class, and any other as it is."""
    if not resource.startswith(CLAIM_PREFIX):
        return resource
    device_class = resource.rpartition("/")[2].partition("#")[0]
    return f"{CLAIM_PREFIX}{device_class}"
