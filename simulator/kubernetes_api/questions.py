"""What a list or a watch asks for, and which options do not go together.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from simulator.kubernetes_api.errors import bad_request, invalid
from simulator.kubernetes_api.kinds import FORBIDDEN
from simulator.kubernetes_api.resources import Resource
from simulator.kubernetes_api.selectors import (
    Selector,
    field_selector,
    label_selector,
)

WATCH_TIMEOUT_SECONDS: Final = 1800


@dataclass(frozen=True)
class Question:
    """What a list or a watch asks for."""

    resource: Resource
    namespace: str
    labels: str = ""
    fields: str = ""
    limit: int = 0
    token: str = ""
    version: str = ""
    timeout_seconds: int = WATCH_TIMEOUT_SECONDS
    has_bookmarks: bool = False
    match: str = ""

    def selector(self) -> Selector:
        """Return what tells whether an object fits.

        Raises:
            StatusError: 400 for selectors that are none.
        """
        by_labels = label_selector(self.labels)
        by_fields = field_selector(self.resource, self.fields)
        return lambda obj: by_labels(obj) and by_fields(obj)


def question_of(resource: Resource, namespace: str, query: Mapping[str, str]) -> Question:
    """Return what a query string asks for.

    Raises:
        StatusError: 400 for numbers that are none, 422 for options that do not go together.
    """
    _refuse_options(query)
    return Question(
        resource=resource,
        namespace=namespace,
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        limit=_whole(query, "limit", 0),
        token=query.get("continue", ""),
        version=query.get("resourceVersion", ""),
        timeout_seconds=_whole(query, "timeoutSeconds", WATCH_TIMEOUT_SECONDS),
        has_bookmarks=query.get("allowWatchBookmarks", "") in {"true", "True", "1"},
        match=query.get("resourceVersionMatch", ""),
    )


def _refuse_options(query: Mapping[str, str]) -> None:
    """Refuse what the real server refuses with its feature gate WatchList off.

    Source: kubernetes/apimachinery, pkg/apis/meta/internalversion/validation/validation.go.
    """
    causes = []
    is_watch = query.get("watch", "") in {"true", "True", "1"}
    if "sendInitialEvents" in query:
        scope = "watch unless the WatchList feature gate is enabled" if is_watch else "list"
        why = f"Forbidden: sendInitialEvents is forbidden for {scope}"
        causes.append((FORBIDDEN, why, "sendInitialEvents"))
    if query.get("resourceVersionMatch"):
        if is_watch:
            why = "Forbidden: resourceVersionMatch is forbidden for watch"
            causes.append((FORBIDDEN, why, "resourceVersionMatch"))
        elif not query.get("resourceVersion"):
            why = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
            causes.append((FORBIDDEN, why, "resourceVersionMatch"))
    if causes:
        raise invalid("ListOptions.meta.k8s.io", "", causes)


def version_of(text: str) -> int:
    """Return a resource version as a number.

    Raises:
        StatusError: 400 for one that is none.
    """
    if not text.isascii() or not text.isdigit():
        raise bad_request(f'Invalid value: "{text}": resourceVersion is not a number')
    return int(text)


def _whole(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)
