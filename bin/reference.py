"""Pages of reference made of the code: error codes, roles, metrics and operations of the API."""

import ast
import importlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import django
import yaml

ROOT = Path(__file__).resolve().parent.parent
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.test")
django.setup()

from rest_framework.exceptions import APIException  # noqa: E402 - After the set-up.

from tenants.api.problems import _BUSY_BODY, _REMEDIES  # noqa: E402
from tenants.domain.errors import DomainError  # noqa: E402
from tenants.domain.identity.roles import (  # noqa: E402
    ALL_CAPABILITIES,
    CAPABILITIES,
    ROLE_SCOPES,
    Role,
)

APPS = ("tenants", "metering", "quotas", "billing", "config")
ERROR_CLASS = re.compile(r"^class \w+\(.*Error\b.*\):", re.MULTILINE)
METRIC_FILES = ("config/monitoring/metrics.py", "quotas/webhook/figures.py")
METRIC_CALLS = {
    "Counter": "counter",
    "CounterMetricFamily": "counter",
    "Gauge": "gauge",
    "GaugeMetricFamily": "gauge",
    "Histogram": "histogram",
    "_by_label": "gauge",
}
METRIC_PREFIX = "gpu_ledger"
LABELS_POSITION = 2
OPENAPI = "docs/reference/openapi.yaml"
METHODS = ("get", "post", "put", "patch", "delete")
ERRORS_INTRODUCTION = """
Every refusal over REST is `application/problem+json` with one of these codes
([conventions](api.md#refusals)). A code is stable, its sentences may change. In an answer
`detail` and `remedy` may be more exact than here.
"""
ROLES_INTRODUCTION = """
A role gives capabilities, `<app>:<resource>:<action>`, within its scope. [Manage
people](../how-to/manage-people.md#the-roles) says what each role is for and how it is given.
"""
METRICS_INTRODUCTION = """
`manage.py serve` answers `/metrics` on `METRICS_PORT`. `serve_admission` answers it on the
address of its probes, with the metrics of admission answers alone. [What to
watch](../how-to/install.md#what-to-watch) says which of them need an alert.
"""
OPERATIONS_INTRODUCTION = """
The operations below `/api/v1`, as [openapi.yaml](openapi.yaml) (OpenAPI 3.1) describes them with
parameters, bodies and answers; a running service shows it at `/api/v1/docs/`.
[Conventions](api.md) hold for all of them. *key*: it takes an `Idempotency-Key`. *version*: it
needs `If-Match`.
"""


def table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a table in Markdown; no cell may end it."""
    lines = [columns, tuple("---" for _ in columns), *rows]
    return "\n".join(
        f"| {' | '.join(' '.join(cell.split()).replace('|', '&#124;') for cell in line)} |"
        for line in lines
    )


def paragraphs(*parts: str) -> str:
    """Return a page of paragraphs, each with its white space made single unless it is a table."""
    tidy = (part if part.startswith("|") else " ".join(part.split()) for part in parts)
    return "\n\n".join(tidy) + "\n"


def first_sentence(text: str | None) -> str:
    """Return the first paragraph of a docstring on one line."""
    return " ".join((text or "").strip().split("\n\n")[0].split())


def refusals() -> list[type[DomainError]]:
    """Return every refusal of the product, by its code."""
    for app in APPS:
        for path in sorted((ROOT / app).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if "migrations" in parts or not ERROR_CLASS.search(path.read_text(encoding="utf-8")):
                continue
            importlib.import_module(".".join(parts))
    return sorted(set(_below(DomainError)), key=lambda refusal: refusal.code)


def _below(refusal: type[DomainError]) -> Iterator[type[DomainError]]:
    for one in refusal.__subclasses__():
        yield one
        yield from _below(one)


def errors_page() -> str:
    """Return the page of all codes of refusals."""
    codes = {one.code: one for one in refusals()}
    parts = [
        "# Error codes",
        ERRORS_INTRODUCTION,
    ]
    for app in APPS:
        rows = [
            (
                f'<code id="{code}">{code}</code>',
                str(one.status),
                first_sentence(one.__doc__),
                one.remedy,
            )
            for code, one in codes.items()
            if one.__module__.partition(".")[0] == app
        ]
        if rows:
            parts += [f"## {app.capitalize()}", table(("code", "status", "what", "remedy"), rows)]
    parts += ["## Protocol", table(("code", "status", "what", "remedy"), protocol_rows())]
    return paragraphs(*parts)


def protocol_rows() -> list[tuple[str, ...]]:
    """Return the codes that Django REST framework and the database give, beside the refusals."""
    known = {one.code for one in refusals()}
    classes = {str(one.default_code): one for one in APIException.__subclasses__()}
    rows: list[tuple[str, ...]] = [
        (
            f'<code id="{code}">{code}</code>',
            str(classes[code].status_code),
            str(classes[code].default_detail).format(method="…", media_type="…"),
            remedy,
        )
        for code, remedy in _REMEDIES.items()
        if code not in known
    ]
    busy = _BUSY_BODY["code"]
    rows.append(
        (f'<code id="{busy}">{busy}</code>', "503", _BUSY_BODY["detail"], _BUSY_BODY["remedy"])
    )
    return sorted(rows)


def roles_page() -> str:
    """Return the page of roles and the capabilities of each."""
    names = tuple(role.value.replace("_", " ") for role in Role)
    parts = [
        "# Roles and capabilities",
        ROLES_INTRODUCTION,
        table(
            ("role", "in the API", "scope", "capabilities"),
            [
                (name, f"`{role.value}`", ROLE_SCOPES[role].value, str(len(CAPABILITIES[role])))
                for name, role in zip(names, Role, strict=True)
            ],
        ),
    ]
    for app in APPS:
        rows = [
            (
                f"`{capability}`",
                *("yes" if capability in CAPABILITIES[role] else "" for role in Role),
            )
            for capability in sorted(ALL_CAPABILITIES)
            if capability.startswith(f"{app}:")
        ]
        if rows:
            parts += [f"## {app.capitalize()}", table(("capability", *names), rows)]
    return paragraphs(*parts)


def metrics() -> Iterator[tuple[str, str, str, str]]:
    """Yield name, kind, labels and help of every metric that the code makes.

    Raises:
        ValueError: A metric is made in a way that cannot be read.
    """
    for name in METRIC_FILES:
        tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                kind = METRIC_CALLS.get(node.func.id)
                if kind and not isinstance(node.args[0], ast.JoinedStr | ast.Constant):
                    raise ValueError(f"{name}:{node.lineno}: the name of a metric cannot be read.")
                if kind and not _is_own_template(node):
                    yield _metric(node, kind)


def _is_own_template(node: ast.Call) -> bool:
    """Whether a call is the one inside `_by_label`, whose name is an argument."""
    return any(isinstance(part, ast.Name) and part.id == "name" for part in ast.walk(node.args[0]))


def _metric(node: ast.Call, kind: str) -> tuple[str, str, str, str]:
    """Return name, kind, labels and help of one metric."""
    first = node.args[0]
    pieces = first.values if isinstance(first, ast.JoinedStr) else [first]
    name = "".join(
        str(piece.value) if isinstance(piece, ast.Constant) else METRIC_PREFIX for piece in pieces
    )
    if not name.startswith(METRIC_PREFIX):
        name = f"{METRIC_PREFIX}_{name}"
    suffix = "_total" if kind == "counter" else ""
    return f"{name}{suffix}", kind, _labels(node), str(ast.literal_eval(node.args[1]))


def _labels(node: ast.Call) -> str:
    """Return the labels of a metric, by keyword or third argument."""
    given = [one.value for one in node.keywords if one.arg in ("label", "labels")]
    given += node.args[LABELS_POSITION : LABELS_POSITION + 1]
    found = [label for one in given for label in _names(ast.literal_eval(one))]
    return ", ".join(f"`{label}`" for label in found)


def _names(labels: str | tuple[str, ...]) -> tuple[str, ...]:
    return (labels,) if isinstance(labels, str) else labels


def metrics_page() -> str:
    """Return the page of metrics."""
    rows = [(f"`{name}`", kind, labels, text) for name, kind, labels, text in sorted(metrics())]
    columns = ("metric", "kind", "labels", "meaning")
    return paragraphs("# Metrics", METRICS_INTRODUCTION, table(columns, rows))


def operations_page() -> str:
    """Return the page of all operations of the API, by tag."""
    described = yaml.load((ROOT / OPENAPI).read_bytes(), Loader=yaml.CSafeLoader)
    by_tag: dict[str, list[tuple[str, ...]]] = {tag["name"]: [] for tag in described["tags"]}
    for path, item in described["paths"].items():
        for method in METHODS:
            if method in item:
                one = item[method]
                by_tag[one["tags"][0]].append(_operation_row(path, method, one))
    parts = [
        "# API operations",
        OPERATIONS_INTRODUCTION,
    ]
    for tag in described["tags"]:
        parts += [
            f"## {tag['name']}",
            tag["description"],
            table(("operation", "what", "id", "takes"), by_tag[tag["name"]]),
        ]
    return paragraphs(*parts)


def _operation_row(path: str, method: str, one: dict[str, Any]) -> tuple[str, ...]:
    names = {parameter.get("name") for parameter in one.get("parameters", ())}
    takes = [
        word
        for name, word in (("Idempotency-Key", "key"), ("If-Match", "version"))
        if name in names
    ]
    short = path.removeprefix("/api/v1")
    return (
        f"`{method.upper()} {short}`",
        one["summary"],
        f"`{one['operationId']}`",
        ", ".join(takes),
    )


PAGES: dict[str, Callable[[], str]] = {
    "reference/operations.md": operations_page,
    "reference/errors.md": errors_page,
    "reference/roles.md": roles_page,
    "reference/metrics.md": metrics_page,
}
