"""What the committed description of the API says of every operation."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.architecture.source import ROOT

TAGS_MAX = 12
SUMMARY_LENGTH_MAX = 90


@pytest.fixture(scope="module")
def committed() -> dict[str, Any]:
    text = (ROOT / "docs" / "reference" / "openapi.yaml").read_text(encoding="utf-8")
    return yaml.load(text, Loader=yaml.CSafeLoader)  # type: ignore[no-any-return]


def operations(committed: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for operations in committed["paths"].values():
        yield from operations.values()


def test_every_operation_is_named_and_explained(committed: dict[str, Any]) -> None:
    unclear = [
        (operation["operationId"], operation.get("summary"))
        for operation in operations(committed)
        if not operation.get("description")
        or not operation["operationId"].replace("_", "").isalpha()
        or not 0 < len(operation.get("summary", "")) <= SUMMARY_LENGTH_MAX
        or operation["summary"].endswith(".")
    ]

    assert unclear == []


def test_every_operation_has_one_of_few_tags(committed: dict[str, Any]) -> None:
    explained = [tag["name"] for tag in committed["tags"] if tag["description"]]

    assert len(explained) <= TAGS_MAX
    assert {tuple(one["tags"]) for one in operations(committed)} == {(name,) for name in explained}


def test_every_operation_names_its_refusals(committed: dict[str, Any]) -> None:
    refusals = committed["components"]["responses"]
    for operation in operations(committed):
        codes = {code for code in operation["responses"] if code in refusals}
        is_changed = "428" in codes

        assert {"401", "403", "422", "429", "default"} <= codes, operation["operationId"]
        assert is_changed == any(
            one.get("name") == "If-Match" for one in operation.get("parameters", ())
        )
    for code, refusal in refusals.items():
        problem = refusal["content"]["application/problem+json"]
        assert code == str(problem.get("example", {"status": "default"})["status"])


def test_every_answer_in_json_has_an_example_that_its_schema_allows(
    committed: dict[str, Any],
) -> None:
    schemas = committed["components"]["schemas"]
    wrong = []
    for operation in operations(committed):
        for answer in operation["responses"].values():
            media = answer.get("content", {}).get("application/json")
            if media is None:
                continue
            schema = object_of(media["schema"], schemas)
            validator = Draft202012Validator(
                {**schema, "components": committed["components"]},
                format_checker=Draft202012Validator.FORMAT_CHECKER,
            )
            examples = schema.get("examples") or [None]
            wrong += [
                f"{operation['operationId']}: {error.json_path} {error.message}"
                for example in examples
                for error in validator.iter_errors(example)
            ]

    assert wrong == []


def object_of(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of what an answer holds, or of one row of what it lists."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    rows = schema.get("properties", {}).get("results", {}).get("items") or schema.get("items")
    return object_of(rows, schemas) if rows else schema


def test_every_example_of_a_body_is_one_that_its_schema_allows(committed: dict[str, Any]) -> None:
    wrong = [
        f"{operation['operationId']}: {error.json_path} {error.message}"
        for operation in operations(committed)
        for media in operation.get("requestBody", {}).get("content", {}).values()
        for error in Draft202012Validator(
            {**media["schema"], "components": committed["components"]},
            format_checker=Draft202012Validator.FORMAT_CHECKER,
        ).iter_errors(media["example"])
    ]

    assert wrong == []
