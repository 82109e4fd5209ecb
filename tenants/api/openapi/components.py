"""What is shared by all operations in the API description: refusals and examples."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tenants.api.problems import PROBLEM_TYPE

_HEADERS: Final = {
    "401": {"WWW-Authenticate": "How to sign in."},
    "429": {"Retry-After": "After how many seconds to send it again."},
    "503": {"Retry-After": "After how many seconds to send it again."},
}
_REFUSALS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "400": (
        "The request cannot be read, or its Idempotency-Key is missing.",
        {
            "code": "idempotency_key_required",
            "detail": "The Idempotency-Key is missing or not usable.",
            "remedy": "Send an Idempotency-Key header: 1 to 255 visible characters, new for each "
            "intent.",
        },
    ),
    "401": (
        "The caller is not authenticated.",
        {
            "code": "unauthenticated",
            "detail": "Authentication credentials were not provided.",
            "remedy": "Send `Authorization: Bearer <token>` with a valid API token, or sign in.",
        },
    ),
    "403": (
        "The caller's roles, or the token's scopes, do not allow it.",
        {
            "code": "forbidden",
            "detail": "Your roles do not allow this.",
            "remedy": "Ask an administrator of the organization for a role that allows it.",
        },
    ),
    "404": (
        "It does not exist, or the caller may not see it.",
        {
            "code": "not_found",
            "detail": "There is no such project.",
            "remedy": "Check the identifier, and that your role covers it.",
        },
    ),
    "406": (
        "The Accept header names no type that is answered.",
        {
            "code": "not_acceptable",
            "detail": "Could not satisfy the request Accept header.",
            "remedy": "Accept `application/json`.",
        },
    ),
    "409": (
        "The state does not allow it now.",
        {
            "code": "slug_taken",
            "detail": "The slug northwind is taken.",
            "remedy": "Choose another slug.",
            "field": "slug",
        },
    ),
    "412": (
        "It was changed since what If-Match, or the body, says was shown.",
        {
            "code": "stale_version",
            "detail": "Version 3 was changed in the meantime.",
            "remedy": "Fetch the object again, look at the change, and send its new ETag as "
            "If-Match.",
        },
    ),
    "413": (
        "The body is too large.",
        {
            "code": "body_too_large",
            "detail": "The body has more than 2621440 bytes.",
            "remedy": "Send less at once, in several requests.",
        },
    ),
    "415": (
        "The body is of another type.",
        {
            "code": "unsupported_media_type",
            "detail": 'Unsupported media type "text/plain" in request.',
            "remedy": "Send `Content-Type: application/json`.",
        },
    ),
    "422": (
        "The input can never be right: the fields are named.",
        {
            "code": "invalid_input",
            "detail": "The input cannot be used.",
            "remedy": "Correct the fields named under problems.",
            "field": "organization",
            "problems": [
                {
                    "field": "organization",
                    "code": "invalid",
                    "message": "Must be a valid UUID.",
                }
            ],
        },
    ),
    "428": (
        "If-Match is missing.",
        {
            "code": "precondition_required",
            "detail": "If-Match does not name the version that is changed.",
            "remedy": "Fetch the object and send its ETag as If-Match.",
        },
    ),
    "429": (
        "Too many requests, or too many wrong tokens.",
        {
            "code": "too_many_attempts",
            "detail": "Too many tokens were wrong.",
            "remedy": "Wait until then; networks you signed in from before have a limit of their "
            "own.",
            "facts": {"retry_after_seconds": 30},
        },
    ),
    "503": (
        "Another request is changing the same at the moment.",
        {
            "code": "busy",
            "detail": "Another request is changing this at the moment.",
            "remedy": "Send the same request again in a second.",
        },
    ),
}
_EXAMPLES: Final[dict[str, Any]] = {
    "above": "1000",
    "acknowledgement": "The exceptions were looked at.",
    "address": "finance@northwind.example",
    "amount": "120.00",
    "band": "night",
    "bank_account": "DE02120300000000202051",
    "bank_reference": "NTRF-20261102-7",
    "billing_currency": "EUR",
    "buyer_reference": "04011000-12345-67",
    "category": "S",
    "cluster": "hopper",
    "contact": "Nora Lind",
    "content": "<Document>...</Document>",
    "cost_center": "4711",
    "country": "DE",
    "credit_series": "GL-CN",
    "currency": "EUR",
    "discount_percent": "5",
    "email": "nora@northwind.example",
    "end_at": "2026-11-01T00:00:00Z",
    "events": ["quotas:*:*"],
    "expires_at": "2027-06-30T00:00:00Z",
    "first_month": "2026-10",
    "from": "00:00",
    "justification": "Evaluation runs until the paper is out.",
    "label": "2026-10",
    "last_month": "2027-09",
    "limit_units": 16,
    "model_group": "H100",
    "month": "2026-10",
    "name": "Northwind Labs",
    "namespace": "northwind-llm",
    "note": "Checked with the team.",
    "price_group": "H100/whole",
    "purchase_order": "PO-2026-118",
    "rate": "19",
    "reason": "Agreed with the customer.",
    "reference": "Bank statement 211",
    "requested_units": 4,
    "role": "member",
    "rules": [{"size": "large", "resources": ["nvidia.com/*"]}],
    "series": "GL",
    "size": "medium",
    "slug": "northwind",
    "start_before": "2026-10-02T00:00:00Z",
    "tax_country": "DE",
    "tax_id": "DE123456789",
    "text": "Please see the attached plan.",
    "time_zone": "Europe/Berlin",
    "to": "06:00",
    "unit_price": "3.50",
    "units": 4,
    "valid_until": "2026-11-01T00:00:00Z",
}
"""What fields of these names hold in examples, where their type allows it."""
_FORMATS: Final = {
    "uuid": "01927f0e-5c1e-7a31-8c55-3b0f9f4d2a10",
    "date-time": "2026-10-01T00:00:00Z",
    "date": "2026-10-01",
    "email": "nora@northwind.example",
    "decimal": "120.00",
    "uri": "https://hooks.northwind.example/gpu-ledger",
}
_FRACTION: Final = "0.5"
"""Of a decimal with fewer digits before its point than those of amounts."""
_OWN_FORMATS: Final = ("uuid", "email", "uri")
"""Formats that a text of `_EXAMPLES` does not have."""
DEPTH_MAX: Final = 30
"""No body of the API is nested deeper; a schema that names itself would be."""


def complete(result: dict[str, Any], **_: object) -> dict[str, Any]:
    """Return the description with every refusal, and with examples of all bodies (a hook).

    The example of an answer stands at the schema of its object, which lists share.
    """
    components = result["components"]
    components["responses"] = dict(_responses())
    for operations in result["paths"].values():
        for operation in operations.values():
            content = operation.get("requestBody", {}).get("content", {})
            for media in content.values():
                media.setdefault("example", example_of(media["schema"], components["schemas"]))
            for answer in operation["responses"].values():
                media = answer.get("content", {}).get("application/json")
                if media is not None:
                    _add_example(media["schema"], components["schemas"])
    return result


def _add_example(schema: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Give the object that an answer holds, or holds many of, an example."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    rows = schema.get("properties", {}).get("results", {}).get("items") or schema.get("items")
    if rows is not None:
        _add_example(rows, schemas)
    elif "examples" not in schema:
        schema["examples"] = [example_of(schema, schemas)]


def example_of(
    schema: Mapping[str, Any], schemas: Mapping[str, Any], *, name: str = "", depth: int = 0
) -> Any:  # noqa: ANN401 - JSON.
    """Return a value that a schema allows, as a reader expects it of a field of that name."""
    if depth > DEPTH_MAX:
        raise ValueError(f"A schema at {name!r} is nested deeper than {DEPTH_MAX}.")
    if "$ref" in schema:
        target = schemas[schema["$ref"].rpartition("/")[2]]
        return example_of(target, schemas, name=name, depth=depth + 1)
    for choices in ("allOf", "oneOf", "anyOf"):
        if choices in schema and "type" not in schema:
            return example_of(schema[choices][0], schemas, name=name, depth=depth + 1)
    if schema.get("properties"):
        return {
            key: example_of(schema["properties"][key], schemas, name=key, depth=depth + 1)
            for key in _shown(schema)
        }
    return _plain_example(schema, schemas, name=name, depth=depth)


def _shown(schema: Mapping[str, Any]) -> list[str]:
    """Return the fields that an example has: those required, and others that are well known."""
    required = schema.get("required", ())
    names = [name for name in schema["properties"] if name in required or name in _EXAMPLES]
    return names or list(schema["properties"])[:1]


def _plain_example(
    schema: Mapping[str, Any], schemas: Mapping[str, Any], *, name: str, depth: int
) -> Any:  # noqa: ANN401 - JSON.
    types = schema.get("type", "object")
    kind = types if isinstance(types, str) else types[0]
    known = _EXAMPLES.get(name)
    if "enum" in schema:
        return known if known in schema["enum"] else schema["enum"][0]
    if kind == "array":
        items = schema.get("items", {})
        is_of_text = items.get("type") == "string"
        if isinstance(known, list) and isinstance(known[0], str) == is_of_text:
            return known
        return [example_of(items, schemas, name=name, depth=depth + 1)]
    if kind == "string":
        return _text_example(schema, name)
    number = known if isinstance(known, int) else max(schema.get("minimum", 1), 1)
    return {"integer": number, "boolean": True}.get(kind, known or {})


def _text_example(schema: Mapping[str, Any], name: str) -> str:
    form = schema.get("format", "")
    text = _FORMATS.get(form, name.replace("_", " "))
    if form not in _OWN_FORMATS:
        text = str(_EXAMPLES.get(name, text))
    if not re.search(schema.get("pattern", ""), text):
        text = _FRACTION
    return text[: schema.get("maxLength", len(text))]


def _responses() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each refusal with an example; `default` is any other."""
    for status, (description, example) in _REFUSALS.items():
        code = example["code"]
        document = {
            "type": f"urn:gpu-ledger:problem:{code}",
            "title": code.replace("_", " ").capitalize(),
            "status": int(status),
            **example,
        }
        yield status, _response(description, _HEADERS.get(status, {}), example=document)
    yield "default", _response("What was refused, why, and the remedy.", {})


def _response(description: str, headers: Mapping[str, str], **media: object) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        "description": description,
        "headers": {
            name: {"description": text, "schema": {"type": "string"}}
            for name, text in headers.items()
        },
        "content": {PROBLEM_TYPE: {"schema": schema, **media}},
    }
