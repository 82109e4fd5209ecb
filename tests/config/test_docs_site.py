"""The site of the documentation: links out of docs/, pages made of the code, no other host."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from django.conf import settings
from django.test import Client
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from quotas.webhook.figures import REGISTRY
from tests.architecture.source import product

ROOT = Path(__file__).resolve().parent.parent.parent


def program(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"bin_{name}", ROOT / "bin" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


docs = program("docs")
reference = program("reference")
settings_table = program("settings_table")


@pytest.mark.parametrize(
    ("name", "text", "address"),
    [
        ("a.html", '<script src="https://cdn.example/x.js"></script>', "https://cdn.example/x.js"),
        ("a.html", "<link rel=stylesheet href=//cdn.example/x.css>", "//cdn.example/x.css"),
        ("a.html", '<img srcset="own.png 1x, http://cdn.example/b.png 2x">', None),
        ("a.html", "<form action='HTTPS://cdn.example/'></form>", "HTTPS://cdn.example/"),
        ("a.html", "<p style='background: url(//cdn.example/x)'>", "//cdn.example/x"),
        ("a.css", "@import 'https://cdn.example/x.css';", "https://cdn.example/x.css"),
        ("a.css", '@font-face {src: url("https://cdn.example/f")}', "https://cdn.example/f"),
        ("a.svg", '<image xlink:href="https://cdn.example/i"/>', "https://cdn.example/i"),
    ],
)
def test_what_another_host_would_serve_is_refused(
    tmp_path: Path, name: str, text: str, address: str | None
) -> None:
    (tmp_path / name).write_text(text)

    [problem] = docs.foreign_resources(tmp_path)

    assert problem == f"{name} loads {address or 'http://cdn.example/b.png 2x'}"


def test_links_to_follow_and_own_resources_are_allowed(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="https://cert-manager.io/docs/">x</a><script src="../a//b.js"></script>'
        '<svg xmlns="http://www.w3.org/2000/svg"></svg><code>src="https://x.example"</code>'
    )

    assert list(docs.foreign_resources(tmp_path)) == []


def test_links_are_pointed_to_where_their_targets_are_in_the_site() -> None:
    text = (
        "[a](../README.md#two-commands) ![b](../pictures/a.png) [c](../adr/README.md) "
        "[d](../../docker-compose.yml) [e](#here) [f](https://x.example)\n"
        "```\n[g](../../x.py)\n```\n"
    )

    assert docs.relink(text, "docs/how-to/install.md") == (
        "[a](../README.md#two-commands) ![b](../pictures/a.png) [c](../adr/README.md) "
        "d [e](#here) [f](https://x.example)\n"
        "```\n[g](../../x.py)\n```\n"
    )
    assert docs.relink("[a](../README.md) [b](x.md)", "docs/tutorial.md") == (
        "[a](overview.md) [b](x.md)"
    )
    assert docs.relink("![a](docs/pictures/a.png) [b](LICENSE)", "README.md") == (
        "![a](pictures/a.png) b"
    )


def test_every_code_of_the_product_is_on_the_page_of_errors() -> None:
    written = {
        code
        for module in product()
        for code in re.findall(
            r'^class \w+\([\w, ]*Error\):\n(?:    .*\n|\n)*?    code(?:: [^=]+)? = "([a-z_]+)"',
            module.text,
            re.MULTILINE,
        )
    }

    listed = set(re.findall(r'<code id="([a-z_]+)">', reference.errors_page()))

    assert listed - written == {
        *("busy", "method_not_allowed", "not_acceptable", "parse_error", "permission_denied"),
        "unsupported_media_type",
    }
    assert written - listed == set()


def test_a_role_has_the_capabilities_of_the_code() -> None:
    page = reference.roles_page()

    assert "| `billing:price:write` |  | yes |  |  |  |  |" in page
    assert "| `billing:own_charge:read` |  |  |  |  |  | yes |" in page


@pytest.mark.django_db
def test_the_page_of_metrics_has_what_a_scrape_answers() -> None:
    scraped = {
        (family.name + ("_total" if family.type == "counter" else ""), family.type)
        for text in (
            Client().get("/metrics", SERVER_PORT=str(settings.METRICS_PORT)).content.decode(),
            generate_latest(REGISTRY).decode(),
        )
        for family in text_string_to_metric_families(text)
        if not family.name.endswith("_created")
    }

    assert {(name, kind) for name, kind, _, _ in reference.metrics()} == scraped
    assert (
        "| `gpu_ledger_reservations` | gauge | `cluster`, `state` | Reservations that count now. |"
        in reference.metrics_page()
    )


def test_an_operation_is_under_its_tag_with_what_it_takes() -> None:
    [section] = re.findall(r"## Quota requests\n(.*?)\n## ", reference.operations_page(), re.DOTALL)

    assert "| `POST /quota-requests/` |" in section
    assert re.search(r"\| `POST /quota-requests/` \|.*\| key \|", section)
    assert "/invoices/" not in section


def test_a_new_variable_is_named_and_a_meaning_is_kept(tmp_path: Path) -> None:
    page = tmp_path / "reference" / "environment.md"
    page.parent.mkdir()
    text = (ROOT / "docs" / "reference" / "environment.md").read_text()
    line = next(line for line in text.splitlines() if line.startswith("| `PAYMENT_DAYS`"))
    page.write_text(text.replace(f"{line}\n", "").replace("`3600` | time", "`3601` | time"))

    assert settings_table.refresh_variables(tmp_path, is_writing=False) == [
        "environment.md is not as config/env.py is. Run `make docs`."
    ]
    assert settings_table.refresh_variables(tmp_path, is_writing=True) == [
        "environment.md: PAYMENT_DAYS has no meaning. Write it in its row."
    ]
    assert page.read_text() == text.replace(
        line, "| `PAYMENT_DAYS` | whole number, 0 to 365 | `30` | … |"
    )


def test_a_missing_page_and_a_missing_anchor_fail_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "README.md").write_text("# A\n\n[b](none.md) [c](#nowhere)\n")
    (tmp_path / "mkdocs.yml").write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: {tmp_path / 'pages'}\n"
        f"site_dir: {tmp_path / 'site'}\nplugins: []\n"
    )
    monkeypatch.setattr(docs, "SOURCE", tmp_path)

    [problem] = docs.build()

    assert "'none.md', but the target is not found" in problem
    assert "no such anchor" in problem
    assert "Aborted with 2 warnings in strict mode!" in problem
