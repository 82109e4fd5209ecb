"""Every command of the how-to guides can be pasted: one shell, from the first block to the last.

Each page that calls `gl api` is given to bash as it stands, with `gl` and every program of a
cluster replaced by functions that write down what they were asked. What was asked is then held
against the API itself: the operation exists, the query's filters are known, the body is JSON.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest
from django.urls import resolve

from tests.deploy.files import ROOT
from tests.support.flows.operations import PREFIX

PAGES: Final = {
    page.name: page.read_text("utf-8")
    for page in sorted((ROOT / "docs/how-to").glob("*.md"))
    if "gl api" in page.read_text("utf-8")
}
ID: Final = "01a1ffa4-c3b5-7ec1-b7ac-5a1808bc343a"
# Each call becomes one line of the file "asked": its arguments, parted by a character that no page
# has. The answer serves anyone who reads an id, a time or a tag out of it.
STUBS: Final = f"""
set -u
gl() {{ [ "$1" = api ] || return 0
  shift
  (IFS=$'\\x1f'; printf '%s\\x1e' "$*" >> asked)
  local id={ID}
  case $1 in metering-windows*|metering-exceptions*|usage-records*|charges*|enforce*)
    id=7;; esac
  case "$*" in
    *"--field window_start") echo 2026-10-05T13:00:00Z;;
    *bulk*"--field id") echo $id; echo $id;;
    *"--field "*) echo $id;;
    *--etag) echo '"3"';;
    *) echo '{{}}';;
  esac; }}
kubectl() {{ echo YQ==; }}; docker() {{ :; }}; curl() {{ echo '{{}}'; }}; sleep() {{ :; }}
python() {{ :; }}; manage.py() {{ :; }}; deploy/make-secrets() {{ :; }}
.venv/bin/python() {{ echo token; }}; sudo() {{ :; }}
"""
# What the demo writes for its reader, see the page of the sandbox.
ENVIRONMENT: Final = (
    "".join(
        f"export {name}=given\n"
        for name in ("GL_URL", "THEO", "TARA", "FRANK", "PROJECT", "ORGANIZATION")
    )
    + "export KUBE=given KUBE_CA=given KUBE_TOKEN=given\n"
)
FLAGS: Final = frozenset({"-d", "-X", "--if-match", "--key", "--field"})
"""Of `gl api`, each with a value."""


def blocks(page: str) -> list[str]:
    """Return what a reader pastes."""
    return re.findall(r"^```console\n(.*?)^```$", PAGES[page], re.MULTILINE | re.DOTALL)


def script_of(page: str) -> str:
    """Return a page's blocks, with our functions in place of those it defines."""
    return STUBS + "\n".join(block.replace("gl_…", "given") for block in blocks(page))


def pasted(page: str, folder: Path) -> tuple[str, list[list[str]]]:
    """Run a page in a folder; return what bash complained of and each call's arguments."""
    for name in ("var/demo", "deploy/secrets", "deploy/kubernetes"):
        (folder / name).mkdir(parents=True)
    (folder / "var/demo/sandbox.env").write_text(ENVIRONMENT)
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run(
        [bash],
        input=script_of(page),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,  # Errors of a line are reported below.
    )
    asked = (folder / "asked").read_text() if (folder / "asked").exists() else ""
    complaints = [
        line for line in done.stderr.splitlines() if re.match(r"(.*/)?bash: line \d+:", line)
    ]
    return "\n".join(complaints), [one.split("\x1f") for one in asked.split("\x1e") if one]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, list[list[str]]]]:
    """Every page, pasted once."""
    return {page: pasted(page, tmp_path_factory.mktemp("page")) for page in PAGES}


def method_of(arguments: list[str]) -> str:
    if "-X" in arguments:
        return arguments[arguments.index("-X") + 1]
    return "POST" if "-d" in arguments else "GET"


def bodies_of(arguments: list[str]) -> Iterator[str]:
    for flag, value in pairwise(arguments):
        if flag == "-d":
            yield value


def flags_of(arguments: list[str]) -> set[str]:
    """Return what begins with a dash and is not the value of a flag."""
    before = ["", *arguments]
    return {
        given for flag, given in pairwise(before) if given.startswith("-") and flag not in FLAGS
    }


def problem_of(arguments: list[str]) -> str:
    """Return what the API would not know of a call, "" when it knows all."""
    address = urlsplit(arguments[0])
    method = method_of(arguments).lower()
    view: Any = resolve(f"/{PREFIX}{address.path}").func
    if not hasattr(view, "cls"):
        return f"no such address: {address.path}"
    if method not in getattr(view, "actions", {"get": ""}):
        return f"{method} is not taken by {address.path}"
    asked = set(parse_qs(address.query))
    is_list = getattr(view, "actions", {}).get(method) == "list"
    filters = getattr(view.cls, "filterset_class", None) if is_list else None
    unknown = asked - {*filters.base_filters, "page_size", "cursor"} if filters else set()
    if unknown:
        return f"unknown filters of {address.path}: {sorted(unknown)}"
    unusable = flags_of(arguments) - FLAGS - {"--etag"}
    return f"gl api does not take {sorted(unusable)}" if unusable else ""


def test_the_pages_are_found() -> None:
    assert {"try-the-sandbox.md", "set-prices.md", "close-a-month.md"} <= set(PAGES)
    assert len(PAGES) >= 11


def test_no_page_calls_the_api_in_another_way_than_by_gl() -> None:
    pages = {page.name: page.read_text("utf-8") for page in (ROOT / "docs/how-to").glob("*.md")}
    pages["tutorial.md"] = (ROOT / "docs/tutorial.md").read_text("utf-8")

    assert [
        name for name, text in pages.items() if re.search(r"gl\(\)|curl .*\$(GL|TOKEN)", text)
    ] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_with_names_of_an_installation_has_those_of_the_demo_too(page: str) -> None:
    names = [block for block in blocks(page) if "https://ledger.example.com" in block]
    demo = [block for block in blocks(page) if ". var/demo/sandbox.env" in block]

    assert len(demo) >= len(names)
    assert "slug=acme" not in PAGES[page]


@pytest.mark.parametrize("page", PAGES)
def test_no_command_leaves_a_gap_to_fill_in(page: str) -> None:
    pasted_text = "".join(blocks(page))

    assert re.findall(r"<[a-z_ ]+>", pasted_text) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_name_is_set_before_it_is_used(
    page: str, runs: dict[str, tuple[str, list[list[str]]]]
) -> None:
    complaints, asked = runs[page]

    assert complaints == ""
    assert asked


@pytest.mark.parametrize("page", PAGES)
def test_the_api_knows_what_is_asked(
    page: str, runs: dict[str, tuple[str, list[list[str]]]]
) -> None:
    _, asked = runs[page]

    assert [problem for call in asked if (problem := problem_of(call))] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_body_is_an_object_of_json(
    page: str, runs: dict[str, tuple[str, list[list[str]]]]
) -> None:
    _, asked = runs[page]

    for call in asked:
        for body in bodies_of(call):
            assert isinstance(json.loads(body), dict), (page, body)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (["projects/?slug=llm"], ""),
        (["projects/?name=llm"], "unknown filters of projects/: ['name']"),
        (["project/"], "no such address: project/"),
        (["headroom/", "-d", "{}"], "post is not taken by headroom/"),
        (["metering-windows/7/recheck/", "-d", "{}"], ""),
        (["metering-windows/7/", "-X", "DELETE"], "delete is not taken by metering-windows/7/"),
        (["projects/", "-i"], "gl api does not take ['-i']"),
    ],
)
def test_what_the_api_does_not_know_is_reported(call: list[str], problem: str) -> None:
    assert problem_of(call) == problem


def test_a_name_that_is_not_set_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PAGES, "x.md", "```console\ngl api projects/$NEVER_SET/\n```\n")

    complaints, _ = pasted("x.md", tmp_path)

    assert "NEVER_SET: unbound variable" in complaints
