"""Every page's relative links lead to something that is in the repository."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.deploy.files import ROOT

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def tracked() -> frozenset[str]:
    """Return every tracked file, and every folder that holds one."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    folders = {str(parent) for name in listed for parent in Path(name).parents}
    return frozenset({*listed, *folders})


TRACKED = tracked()
PAGES = sorted(name for name in TRACKED if name.endswith(".md"))


def prose(page: str) -> str:
    """Return a page without its code."""
    return _CODE.sub("", (ROOT / page).read_text("utf-8"))


@cache
def anchors(page: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = _HEADING.findall(
        re.sub(
            r"^```.*?^```$", "", (ROOT / page).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
        )
    )
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


def problem(page: str, link: str) -> str:
    """Return what is wrong with a link of a page, "" when nothing."""
    if re.match(r"[a-z]+:", link):
        return ""
    path, _, anchor = link.partition("#")
    target = page if not path else (ROOT / page).parent.joinpath(path).resolve()
    name = str(target) if not path else str(Path(target).relative_to(ROOT))
    if name not in TRACKED:
        return f"{link}: {name} is not tracked"
    if anchor and anchor not in anchors(name):
        return f"{link}: {name} has no heading #{anchor}"
    return ""


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_leads_somewhere(page: str) -> None:
    found = [problem(page, link) for link in _LINK.findall(prose(page))]

    assert [text for text in found if text] == []


def test_a_link_to_nothing_is_found() -> None:
    assert problem("README.md", "docs/none.md") == "docs/none.md: docs/none.md is not tracked"
    assert problem("README.md", "docs/glossary.md#none").endswith("has no heading #none")
    assert problem("docs/glossary.md", "../README.md") == ""
    assert problem("README.md", "https://example.com/none") == ""


def test_every_page_of_the_documentation_can_be_reached_from_the_index() -> None:
    seen, todo = set(), ["docs/README.md"]
    while todo:
        here = todo.pop()
        if here in seen or here not in PAGES:
            continue
        seen.add(here)
        for link in _LINK.findall(prose(here)):
            path = link.partition("#")[0]
            if path and not re.match(r"[a-z]+:", link):
                target = (ROOT / here).parent.joinpath(path).resolve().relative_to(ROOT)
                todo.append(str(target / "README.md" if (ROOT / target).is_dir() else target))

    assert [page for page in PAGES if page.startswith("docs/") and page not in seen] == []
