"""Coverage: in which namespaces a cluster's API server asks this service about every GPU.

Read from the ValidatingWebhookConfiguration that the cluster has, not from what it should have.
What differs from the printed configuration in any way that can leave a pod or a claim unasked
covers nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from quotas.domain.admission.webhook_configuration import (
    DOMAIN,
    NAME_LABEL,
    Registration,
    configurations,
)

JSON = Mapping[str, Any]
COUNTING: Final = (f"pods.{DOMAIN}", f"claims.{DOMAIN}")
"""The webhooks that count; the others only write owners and warn."""
ANY: Final = "*"
RULE_LISTS: Final = ("apiGroups", "apiVersions", "resources", "operations")


@dataclass(frozen=True)
class WebhookCoverage:
    """Namespaces in which nothing with GPUs is created without an answer of this service.

    Attributes:
        excluded: Namespaces that are not asked about.
        included: The only ones that are; None for all others.
        problem: Why no namespace is covered; "" when some are.
    """

    excluded: frozenset[str] = frozenset()
    included: frozenset[str] | None = None
    problem: str = ""

    def covers(self, namespace: str) -> bool:
        """Whether a namespace is covered."""
        is_chosen = self.included is None or namespace in self.included
        return not self.problem and is_chosen and namespace not in self.excluded

    def is_within(self, other: "WebhookCoverage") -> bool:
        """Whether the other covers every namespace that this one covers."""
        if self.problem or other.problem:
            return bool(self.problem)
        if self.included is not None:
            return all(other.covers(name) for name in self.included if self.covers(name))
        return other.included is None and other.excluded <= self.excluded

    def with_named(self, other: "WebhookCoverage") -> "WebhookCoverage":
        """Return this with the namespaces that the other names, where both name theirs."""
        if self.included is None or other.included is None:
            return self
        return replace(self, included=self.included | other.included)


def find_coverage(
    webhooks: Iterable[JSON], *, cluster: str, offered: Iterable[str]
) -> WebhookCoverage:
    """Return what the validating webhooks of our name cover, as an API server returned them.

    Args:
        webhooks: Of our configuration; none where the cluster has none.
        cluster: Slug.
        offered: GPU resource names of the cluster now: a condition of other names does not do.
    """
    printed = configurations(
        Registration(
            cluster=cluster, authority_pem="", service="-/-", offered=tuple(sorted(offered))
        )
    )[1]["webhooks"]
    expected = {webhook["name"]: webhook for webhook in printed}
    found = {str(webhook.get("name")): webhook for webhook in webhooks}
    covered = WebhookCoverage()
    for name in COUNTING:
        if name not in found:
            return WebhookCoverage(problem=f"The cluster has no webhook {name}.")
        problem = next(_problems(found[name], expected[name], f"/admit/{cluster}/pods"), "")
        if problem:
            return WebhookCoverage(problem=f"{name}: {problem}")
        covered = _narrowed(covered, found[name].get("namespaceSelector") or {})
        if covered.problem:
            return covered
    return covered


def _problems(found: JSON, expected: JSON, path: str) -> Iterator[str]:
    if found.get("failurePolicy") != "Fail":
        yield "failurePolicy is not Fail."
    if found.get("objectSelector"):
        yield "it has an objectSelector."
    if found.get("matchPolicy", "Equivalent") != "Equivalent":
        yield "matchPolicy is not Equivalent."
    if (found.get("matchConditions") or expected["matchConditions"]) != expected["matchConditions"]:
        yield "matchConditions are not those of the offered resources; print and apply it again."
    rules = found.get("rules") or []
    if not all(any(_is_within(rule, one) for one in rules) for rule in expected["rules"]):
        yield "its rules leave out pods or claims; print and apply it again."
    if not _path_of(found.get("clientConfig") or {}).endswith(path):
        yield f"it does not call {path}."


def _is_within(rule: JSON, other: JSON) -> bool:
    """Whether one rule leaves out nothing of another."""
    return other.get("scope", ANY) in {ANY, rule["scope"]} and all(
        ANY in other.get(name, ()) or set(rule[name]) <= set(other.get(name, ()))
        for name in RULE_LISTS
    )


def _path_of(client: JSON) -> str:
    return str(client.get("url") or (client.get("service") or {}).get("path") or "")


def _narrowed(covered: WebhookCoverage, selector: JSON) -> WebhookCoverage:
    """Return what is left of a coverage by one more selector of namespaces by name."""
    expressions = [
        *(selector.get("matchExpressions") or ()),
        *(
            {"key": key, "operator": "In", "values": [value]}
            for key, value in (selector.get("matchLabels") or {}).items()
        ),
    ]
    for one in expressions:
        names = frozenset(one.get("values") or ())
        if one.get("key") != NAME_LABEL or one.get("operator") not in {"In", "NotIn"}:
            return WebhookCoverage(problem="namespaceSelector selects by more than names.")
        if one["operator"] == "NotIn":
            covered = replace(covered, excluded=covered.excluded | names)
        else:
            within = names if covered.included is None else covered.included & names
            covered = replace(covered, included=within)
    return covered
