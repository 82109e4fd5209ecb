"""Admission webhooks: which of them match a write, their requests and responses.

Source: kubernetes/apiserver, pkg/admission/plugin/webhook.
"""

import base64
import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import urllib3

from simulator.kubernetes_api.access import Write
from simulator.kubernetes_api.errors import (
    JSON,
    Cause,
    StatusError,
    forbidden,
    internal_error,
)
from simulator.kubernetes_api.patches import json_patch
from simulator.kubernetes_api.reading import matches_labels
from simulator.kubernetes_api.resources import (
    MUTATING_WEBHOOKS,
    NAMESPACES,
    SERVICES,
    VALIDATING_WEBHOOKS,
    Resource,
)
from simulator.kubernetes_api.store import ObjectStore

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"
ADMISSION_VERSION: Final = "admission.k8s.io/v1"
TIMEOUT_SECONDS: Final = 10
NO_COMPILER: Final = "Forbidden: CEL is not simulated"
_HTTPS_PORT: Final = 443
_ALL: Final = "*"

Program = Callable[[JSON], bool]
"""Evaluates an expression over `object`, `oldObject` and `request`; raises ValueError where that
fails."""
Compile = Callable[[str], Program]
"""Compiles an expression; raises ValueError for one that is none, or no condition."""


class CallError(Exception):
    """A webhook that cannot be called or answers invalidly; its failurePolicy decides."""


@dataclass(frozen=True)
class WriteReview:
    """One write under review.

    Attributes:
        operation: CREATE, UPDATE or DELETE.
        obj: As it shall be; None for a deletion.
        old: As it was; None for a creation.
        delete_options: The options that a client sent along with a deletion.
    """

    write: Write
    operation: str
    obj: JSON | None
    old: JSON | None
    delete_options: JSON = field(default_factory=dict)

    def request(self, uid: str = "") -> JSON:
        """Return a new request of an AdmissionReview."""
        sent, served = self.obj or {}, self.write.resource
        group, _, version = sent.get("apiVersion", served.api_version).rpartition("/")
        kind = {"group": group, "version": version, "kind": sent.get("kind", served.kind)}
        resource = {"group": served.group, "version": served.version, "resource": served.plural}
        request = {
            "uid": uid,
            "kind": kind,
            "resource": resource,
            "subResource": self.write.subresource,
            "requestKind": kind,
            "requestResource": resource,
            "requestSubResource": self.write.subresource,
            "name": self.write.key[1],
            "namespace": self.write.key[0],
            "operation": self.operation,
            "userInfo": self.write.user.to_json(),
            "object": self.obj and served.typed(self.obj),
            "oldObject": self.old and served.typed(self.old),
            "dryRun": self.write.is_dry_run,
            "options": self._options(),
        }
        # A copy: a reader of the request cannot change what is stored.
        copied: JSON = json.loads(json.dumps(request))
        return {key: value for key, value in copied.items() if value != "" or key == "uid"}

    def _options(self) -> JSON:
        dry_run = {"dryRun": ["All"]} if self.write.is_dry_run else {}
        is_managed = self.write.manager and self.obj is not None
        manager = {"fieldManager": self.write.manager} if is_managed else {}
        kind = f"{self.operation.capitalize()}Options"
        typed = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
        return {**self.delete_options, **dry_run, **manager, **typed}


@dataclass(frozen=True)
class _Address:
    """Where a webhook is: the name on its certificate, host and port, and the path."""

    name: str
    host: str
    port: int
    path: str


def mutate(review: WriteReview) -> WriteReview:
    """Return a write as the mutating webhooks change it; hold no lock of the store.

    They are called in the order of their names. One with the reinvocationPolicy IfNeeded is called
    again when a later one changed the object.
    """
    last_seen: list[tuple[JSON, JSON | None]] = []
    for webhook in _webhooks(review.write.store, MUTATING_WEBHOOKS):
        if concerns(webhook, review):
            review = _mutated(webhook, review)
            last_seen.append((webhook, review.obj))
    for webhook, seen in last_seen:
        if webhook.get("reinvocationPolicy") == "IfNeeded" and seen != review.obj:
            review = _mutated(webhook, review)
    return review


def validate(review: WriteReview) -> None:
    """Ask the validating webhooks; hold no lock of the store."""
    for webhook in _webhooks(review.write.store, VALIDATING_WEBHOOKS):
        if concerns(webhook, review):
            _ask(webhook, review)


def concerns(webhook: JSON, review: WriteReview) -> bool:
    """Return whether a webhook matches a write.

    Webhook configurations themselves concern no webhook, so that a broken one can be removed.
    """
    if review.write.resource in {MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS}:
        return False
    return (
        any(_fits_rule(rule, review) for rule in webhook.get("rules") or [])
        and _fits_namespace(webhook.get("namespaceSelector") or {}, review)
        and _fits_object(webhook.get("objectSelector") or {}, review)
        and conditions_hold(webhook, review)
    )


def conditions_hold(webhook: JSON, review: WriteReview) -> bool:
    """Return whether every match condition of a webhook holds; a false one outweighs a failed one.

    Source: kubernetes/apiserver, pkg/admission/plugin/webhook/matchconditions/matcher.go.
    """
    compile_condition = review.write.store.compile_condition
    request = review.request()
    variables = {"object": request.pop("object"), "oldObject": request.pop("oldObject")}
    failure = ""
    for condition in webhook.get("matchConditions") or []:
        expression = condition["expression"]
        try:
            if compile_condition is None:
                raise ValueError(NO_COMPILER)  # noqa: TRY301 - As an expression that fails.
            if not compile_condition(expression)({**variables, "request": request}):
                return False
        except ValueError as error:
            failure = failure or f"expression '{expression}' resulted in error: {error}"
    if failure and webhook.get("failurePolicy", "Fail") == "Fail":
        raise forbidden(review.write.resource.qualified, review.write.key[1], failure)
    return not failure


def condition_causes(compile_condition: Compile | None, configuration: JSON) -> Iterator[Cause]:
    """Yield what is wrong with the match conditions of a webhook configuration."""
    for index, webhook in enumerate(configuration.get("webhooks") or []):
        field_name = f"webhooks[{index}].matchConditions"
        for number, condition in enumerate(webhook.get("matchConditions") or []):
            if compile_condition is None:
                yield "FieldValueForbidden", NO_COMPILER, field_name
                continue
            expression = condition.get("expression", "")
            try:
                compile_condition(expression)
            except ValueError as error:
                message = f'Invalid value: "{expression}": {error}'
                yield "FieldValueInvalid", message, f"{field_name}[{number}].expression"


def call_webhook(store: ObjectStore, webhook: JSON, request: JSON) -> JSON:
    """Return the response of a webhook to a request of an AdmissionReview.

    Raises:
        CallError: No answer, one that is too late, or one that cannot be read.
    """
    review = {"kind": "AdmissionReview", "apiVersion": ADMISSION_VERSION, "request": request}
    client, seconds = webhook["clientConfig"], webhook.get("timeoutSeconds", TIMEOUT_SECONDS)
    certificate_path, key_path = store.client_certificate or (None, None)
    try:
        address = _address(store, client)
        bundle = base64.b64decode(client.get("caBundle") or "").decode()
        with urllib3.HTTPSConnectionPool(
            address.host,
            address.port,
            ca_cert_data=bundle or None,
            cert_reqs="CERT_REQUIRED",
            cert_file=certificate_path,
            key_file=key_path,
            assert_hostname=address.name,
            server_hostname=address.name,
            timeout=seconds,
            retries=False,
        ) as pool:
            answer = pool.request("POST", f"{address.path}?timeout={seconds}s", json=review)
        if answer.status != HTTPStatus.OK:
            raise ValueError(f"the server answered {answer.status}")  # noqa: TRY301 - As any other.
        return _response(answer.json(), request["uid"])
    except (OSError, urllib3.exceptions.HTTPError, ValueError, TypeError) as error:
        raise CallError(f"failed to call webhook: {error}") from error


def refusal(webhook: str, status: JSON) -> StatusError:
    """Return a webhook's refusal as the client gets it: its own code, never below 400."""
    message = status.get("message") or status.get("reason")
    text = f": {message}" if message else " without explanation"
    return StatusError(
        max(int(status.get("code") or 0), int(HTTPStatus.BAD_REQUEST)),
        status.get("reason", ""),
        f'admission webhook "{webhook}" denied the request{text}',
        details=status.get("details"),
    )


def _webhooks(store: ObjectStore, resource: Resource) -> Iterator[JSON]:
    for _, configuration in store.items(resource):
        yield from configuration.get("webhooks") or []


def _mutated(webhook: JSON, review: WriteReview) -> WriteReview:
    response = _ask(webhook, review)
    if "patch" not in response or review.obj is None:
        return review
    try:
        patched = json_patch(review.request()["object"], response["patch"])
    except StatusError as error:
        raise internal_error(str(error)) from error
    if review.write.subresource not in {"binding", "eviction"}:
        del patched["kind"], patched["apiVersion"]
    return replace(review, obj=patched)


def _ask(webhook: JSON, review: WriteReview) -> JSON:
    """Return a webhook's response; an empty one when it cannot be called and may fail."""
    try:
        response = call_webhook(review.write.store, webhook, review.request(str(uuid.uuid4())))
    except CallError as error:
        if webhook.get("failurePolicy", "Fail") == "Ignore":
            return {}
        raise internal_error(f'failed calling webhook "{webhook["name"]}": {error}') from error
    review.write.warnings.extend(map(str, response.get("warnings") or []))
    if response.get("allowed") is not True:
        raise refusal(webhook["name"], response.get("status") or {})
    return response


def _fits_rule(rule: JSON, review: WriteReview) -> bool:
    scope = rule.get("scope", _ALL)
    return (
        _has(rule.get("operations"), review.operation)
        and _has(rule.get("apiGroups"), review.write.resource.group)
        and _has(rule.get("apiVersions"), review.write.resource.version)
        and any(_fits_resource(one, review) for one in rule.get("resources") or [])
        and (scope == _ALL or (scope == "Namespaced") is review.write.resource.is_namespaced)
    )


def _fits_resource(pattern: str, review: WriteReview) -> bool:
    plural, _, subresource = pattern.partition("/")
    return plural in {_ALL, review.write.resource.plural} and (
        subresource in {_ALL, review.write.subresource}
    )


def _fits_namespace(selector: JSON, review: WriteReview) -> bool:
    if review.write.resource is NAMESPACES:
        return matches_labels(selector, _labels(review.obj or review.old))
    home = review.write.store.get(NAMESPACES, ("", review.write.key[0]))
    return not review.write.resource.is_namespaced or matches_labels(selector, _labels(home))


def _fits_object(selector: JSON, review: WriteReview) -> bool:
    known = (one for one in (review.obj, review.old) if one is not None)
    return any(matches_labels(selector, _labels(one)) for one in known)


def _labels(obj: JSON | None) -> dict[str, str]:
    labels: dict[str, str] = ((obj or {}).get("metadata") or {}).get("labels") or {}
    return labels


def _has(values: list[str] | None, wanted: str) -> bool:
    return bool({_ALL, wanted} & {*(values or [])})


def _address(store: ObjectStore, client: JSON) -> _Address:
    """Return where a webhook's clientConfig leads.

    There is no network inside a simulated cluster, so a Service leads somewhere only when it is of
    the type ExternalName. Its certificate is that of NAME.NAMESPACE.svc, wherever it leads.
    Source: kubernetes/kube-aggregator, pkg/apiserver/resolvers.go and apiserver, pkg/util/proxy.

    Raises:
        OSError: The Service does not exist, or leads nowhere.
    """
    if "url" in client:
        url = urlsplit(client["url"])
        host = url.hostname or ""
        return _Address(host, host, url.port or _HTTPS_PORT, url.path or "/")
    reference = client["service"]
    name, namespace = reference["name"], reference["namespace"]
    service = store.get(SERVICES, (namespace, name))
    if service is None:
        raise OSError(f'service "{name}" not found')
    if service["spec"].get("type") != "ExternalName":
        raise OSError(f'no endpoints available for service "{name}"')
    port, path = reference.get("port", _HTTPS_PORT), reference.get("path", "/")
    return _Address(f"{name}.{namespace}.svc", service["spec"]["externalName"], port, path)


def _response(review: Any, uid: str) -> JSON:  # noqa: ANN401 - JSON is any value.
    """Return the response of a review; it must be of the version that asked, and of that uid."""
    if not isinstance(review, dict) or not isinstance(review.get("response"), dict):
        raise TypeError("webhook response was absent")
    if (review.get("apiVersion"), review.get("kind")) != (ADMISSION_VERSION, "AdmissionReview"):
        raise ValueError(f"expected webhook response of {ADMISSION_VERSION}")
    response: JSON = {key: one for key, one in review["response"].items() if one is not None}
    if response.get("uid") != uid:
        raise ValueError(f'expected response.uid="{uid}", got "{response.get("uid")}"')
    if ("patch" in response) is not (response.get("patchType") == "JSONPatch"):
        raise ValueError("webhook returned response.patch without a patchType of JSONPatch")
    if "patch" in response:
        response["patch"] = json.loads(base64.b64decode(response["patch"], validate=True))
    return response
