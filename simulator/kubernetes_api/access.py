"""Role-based access control: what a user may do, by the roles bound to it.

Whoever belongs to system:masters may do everything. The escalation check, aggregated roles and
access reviews are not here.
Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/
"""

from collections.abc import Iterator
from typing import Final

from simulator.kubernetes_api.errors import (
    JSON,
    StatusError,
    forbidden,
)
from simulator.kubernetes_api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
)
from simulator.kubernetes_api.routing import Asked
from simulator.kubernetes_api.store import ObjectStore
from simulator.kubernetes_api.users import AUTHENTICATED, User

_FOR_EVERYBODY: Final = frozenset({"/healthz", "/livez", "/readyz", "/version"})
_FOR_KNOWN: Final = ("/api", "/apis", "/openapi")
"""What system:discovery lets every known user read, with all that lies below."""


def refuse_without_right(store: ObjectStore, user: User, asked: Asked) -> None:
    """Refuse what no role of a user allows.

    Raises:
        StatusError: 403 in the real server's words.
    """
    if user.is_master or _is_open(user, asked):
        return
    if asked.resource and any(_allows(rule, asked) for rule in _rules(store, user, asked)):
        return
    raise _refusal(user, asked)


def _is_open(user: User, asked: Asked) -> bool:
    if asked.verb != "get" or asked.resource:
        return False
    if asked.path in _FOR_EVERYBODY:
        return True
    is_below = any(asked.path == root or asked.path.startswith(f"{root}/") for root in _FOR_KNOWN)
    return AUTHENTICATED in user.groups and is_below


def _rules(store: ObjectStore, user: User, asked: Asked) -> Iterator[JSON]:
    for _, binding in store.items(CLUSTER_ROLE_BINDINGS):
        if _binds(binding, user, ""):
            yield from _rules_of(store, binding["roleRef"], "")
    if not asked.namespace:
        return
    for _, binding in store.items(ROLE_BINDINGS, asked.namespace):
        if _binds(binding, user, asked.namespace):
            yield from _rules_of(store, binding["roleRef"], asked.namespace)


def _rules_of(store: ObjectStore, reference: JSON, namespace: str) -> list[JSON]:
    is_cluster_wide = reference["kind"] == CLUSTER_ROLES.kind
    resource, home = (CLUSTER_ROLES, "") if is_cluster_wide else (ROLES, namespace)
    role = store.get(resource, (home, reference["name"]))
    return list((role or {}).get("rules") or [])


def _binds(binding: JSON, user: User, namespace: str) -> bool:
    return any(_is_meant(subject, user, namespace) for subject in binding.get("subjects") or [])


def _is_meant(subject: JSON, user: User, namespace: str) -> bool:
    if subject["kind"] == "Group":
        return subject["name"] in user.groups
    if subject["kind"] == "User":
        return bool(subject["name"] == user.name)
    home = subject.get("namespace", namespace)
    return user.name == f"system:serviceaccount:{home}:{subject['name']}"


def _allows(rule: JSON, asked: Asked) -> bool:
    names = rule.get("resourceNames")
    return (
        _has(rule.get("verbs"), asked.verb)
        and _has(rule.get("apiGroups"), asked.group)
        and _has_resource(rule.get("resources"), asked.resource)
        and (not names or asked.name in names)
    )


def _has(values: list[str] | None, wanted: str) -> bool:
    return bool(values) and ("*" in values or wanted in values)  # type: ignore[operator]


def _has_resource(values: list[str] | None, wanted: str) -> bool:
    subresource = wanted.partition("/")[2]
    return _has(values, wanted) or (bool(subresource) and f"*/{subresource}" in (values or []))


def _refusal(user: User, asked: Asked) -> StatusError:
    if not asked.resource:
        return forbidden("", "", f'User "{user.name}" cannot {asked.verb} path "{asked.path}"')
    qualified = f"{asked.plural}.{asked.group}" if asked.group else asked.plural
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    why = (
        f'User "{user.name}" cannot {asked.verb} resource "{asked.resource}" in API group'
        f' "{asked.group}" {where}'
    )
    return forbidden(qualified, asked.name, why)
