"""What a webhook is asked: one write, as an AdmissionReview of version 1.

Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

from dataclasses import dataclass
from typing import Final

from simulator.kubernetes_api.errors import JSON
from simulator.kubernetes_api.incoming import Writing
from simulator.kubernetes_api.resources import API_VERSION, Resource

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"
ADMISSION_VERSION: Final = "admission.k8s.io/v1"


@dataclass(frozen=True)
class Review:
    """One write on its way in.

    Attributes:
        operation: CREATE, UPDATE or DELETE.
        name: "" where it is not known yet, as for a mutating webhook before a name is generated.
        obj: As it shall be; None for a deletion.
        old: As it was; None for a creation.
        how: Who writes, to which subresource, and whether it is a dry run.
        options: The options a client sent along with a deletion.
    """

    operation: str
    resource: Resource
    namespace: str
    name: str
    obj: JSON | None
    old: JSON | None
    how: Writing
    options: JSON | None = None

    def request(self, uid: str) -> JSON:
        """Return the request of an AdmissionReview.

        Args:
            uid: Of this one call.
        """
        kind = self._kind()
        resource = {
            "group": self.resource.group,
            "version": API_VERSION,
            "resource": self.resource.plural,
        }
        sub = {"subResource": self.how.subresource} if self.how.subresource else {}
        request_sub = {"requestSubResource": self.how.subresource} if self.how.subresource else {}
        return {
            "uid": uid,
            "kind": kind,
            "resource": resource,
            **sub,
            "requestKind": kind,
            "requestResource": resource,
            **request_sub,
            **({"name": self.name} if self.name else {}),
            **({"namespace": self.namespace} if self.namespace else {}),
            "operation": self.operation,
            "userInfo": self.how.user.printed(),
            "object": self._typed(self.obj),
            "oldObject": self._typed(self.old),
            "dryRun": self.how.is_dry_run,
            "options": self._options(),
        }

    def _kind(self) -> JSON:
        """Return the kind of what is sent: a pod, or the Binding or Eviction posted to it."""
        sent = self.obj or {}
        version = sent.get("apiVersion", self.resource.api_version)
        group, _, number = version.rpartition("/")
        return {"group": group, "version": number, "kind": sent.get("kind", self.resource.kind)}

    def _typed(self, obj: JSON | None) -> JSON | None:
        if obj is None:
            return None
        return {"kind": self.resource.kind, "apiVersion": self.resource.api_version, **obj}

    def _options(self) -> JSON:
        dry = {"dryRun": ["All"]} if self.how.is_dry_run else {}
        manager = (
            {"fieldManager": self.how.manager} if self.how.manager and self.obj is not None else {}
        )
        kind = f"{self.operation.capitalize()}Options"
        given = {**(self.options or {}), **dry, **manager}
        return {**given, "kind": kind, "apiVersion": "meta.k8s.io/v1"}
