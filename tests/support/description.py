"""The committed description of the API as a judge of answers."""

import json
import re
from functools import cache
from typing import Any, Final

import yaml
from django.http import HttpResponse
from jsonschema import Draft202012Validator, ValidationError

from tests.architecture.source import ROOT

PREFIX: Final = "/api/v1/"
_DESCRIPTION: Final = ROOT / "docs" / "reference" / "openapi.yaml"


@cache
def description() -> dict[str, Any]:
    """Return the committed description; an object in it has no field that it does not name."""
    text = _DESCRIPTION.read_text(encoding="utf-8")
    read: dict[str, Any] = yaml.load(text, Loader=yaml.CSafeLoader)
    for schema in read["components"]["schemas"].values():
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
    return read


def problems(operation: str, answer: HttpResponse) -> list[str]:
    """Return where an answer is not what the description says of an operation.

    Args:
        operation: Method and path after the version, such as "GET invoices/pk/pdf/".
        answer: Any answer to it, a refusal too.
    """
    responses = _operations()[operation]["responses"]
    status = str(answer.status_code)
    if status not in responses:
        return [f"{operation} {status}: is not among {', '.join(responses)}"]
    response = responses[status]
    if "$ref" in response:
        response = description()["components"]["responses"][status]
    media = str(answer.get("Content-Type", "")).partition(";")[0]
    content = response.get("content", {})
    if media not in content and (content or answer.content):
        return [f"{operation} {status}: {media} is not among {', '.join(content)}"]
    if not media.endswith("json"):
        return []
    validator = _validator(json.dumps(content[media]["schema"]))
    return sorted(
        {
            f"{operation} {status} {_place(error)}: {error.message[:160]}"
            for error in validator.iter_errors(json.loads(answer.content))
        }
    )


@cache
def _operations() -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {re.sub(r'{[^}]*}', 'pk', path.removeprefix(PREFIX))}": operation
        for path, methods in description()["paths"].items()
        for method, operation in methods.items()
    }


@cache
def _validator(schema: str) -> Draft202012Validator:
    return Draft202012Validator(
        {**json.loads(schema), "components": description()["components"]},
        format_checker=Draft202012Validator.FORMAT_CHECKER,
    )


def _place(error: ValidationError) -> str:
    return ".".join("*" if isinstance(part, int) else str(part) for part in error.absolute_path)
