"""What a cluster's API server says of itself, and of what this service's credential may do there.

Nothing is changed: a SelfSubjectAccessReview is a question that is sent as an object.
Source: https://kubernetes.io/docs/reference/access-authn-authz/authorization/
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from quotas.adapters.cluster_calls import ClusterCalls, ClusterRefusalError, unavailable
from quotas.adapters.webhook_configurations import webhooks_of
from quotas.protocols import EnforcementEndpoint

VERSION: Final = "/version"


@dataclass(frozen=True)
class ClusterRight:
    """One verb on one resource.

    Attributes:
        group: API group; "" for the core group.
        resource: Plural, with a subresource behind a slash.
        namespace: Where; "" for the whole cluster.
        name: Of the only object; "" for all.
    """

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """Return it as people say it, such as "list pods"."""
        return f"{self.verb} {self.resource}"


class ClusterInspection:
    """Asks one API server.

    Args:
        calls: Connections.
        endpoint: Which cluster.
    """

    def __init__(self, calls: ClusterCalls, endpoint: EnforcementEndpoint) -> None:
        """Ask nothing yet."""
        self._calls = calls
        self._endpoint = endpoint

    def version(self) -> str:
        """Return the server's version, such as "v1.36.3".

        Raises:
            SourceUnavailableError: It did not answer, or refused us.
        """
        return str(self._get(VERSION).get("gitVersion", "unknown"))

    def clock(self) -> datetime | None:
        """Return the server's time in whole seconds; None where no answer has it.

        Raises:
            SourceUnavailableError: It did not answer, or refused us.
        """
        try:
            text = self._calls.read_clock(self._endpoint, VERSION)
        except ClusterRefusalError as error:
            raise unavailable(error, VERSION) from error
        try:
            return parsedate_to_datetime(text)
        except ValueError:
            return None

    def denied(self, rights: Iterable[ClusterRight]) -> list[ClusterRight]:
        """Return the rights that the credential does not have.

        Raises:
            SourceUnavailableError: It did not answer, or refused us: `unauthorized` where it does
                not know the credential.
        """
        return [right for right in rights if not self._is_allowed(right)]

    def webhooks(self) -> tuple[Mapping[str, Any], ...]:
        """Return the validating webhooks that the cluster has of this service.

        Raises:
            SourceUnavailableError: It did not answer, or refused us.
        """
        return webhooks_of(self._calls, self._endpoint)

    def _is_allowed(self, right: ClusterRight) -> bool:
        resource, _, subresource = right.resource.partition("/")
        asked = {
            "verb": right.verb,
            "group": right.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": right.namespace,
            "name": right.name,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {key: text for key, text in asked.items() if text}},
        }
        try:
            answer = self._calls.review(self._endpoint, review)
        except ClusterRefusalError as error:
            raise unavailable(error, f"The review of {right}") from error
        return bool((answer.get("status") or {}).get("allowed"))

    def _get(self, path: str) -> dict[str, Any]:
        try:
            return self._calls.get(self._endpoint, path)
        except ClusterRefusalError as error:
            raise unavailable(error, path) from error
