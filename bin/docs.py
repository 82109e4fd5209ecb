"""The documentation as a site without another host: pages of docs/, and reference made of the code.

bin/docs.py write   write the tables that docs/ has of the code, then build var/docs
bin/docs.py check   compare those tables, then build; anything unclean ends with status 1
"""

import html.parser
import os
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SOURCE = ROOT / "var" / "docs-source"
SITE = ROOT / "var" / "docs"
PROGRAMS = Path(sys.executable).parent
ADDED = {
    "README.md": "overview.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
"""Pages from outside of docs/, and their names in the site."""
REFERENCE_MARK = "<!-- pages made of the code -->"
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"(^```.*?^```[ ]*$)", re.MULTILINE | re.DOTALL)
FOREIGN = re.compile(r"\s*(?:https?:)?//", re.IGNORECASE)
STYLE_URL = re.compile(
    r"""(?:url\(\s*|@import\s+)["']?\s*((?:https?:)?//[^"')\s]+)""", re.IGNORECASE
)
LOADING = ("src", "href", "srcset", "action", "data", "poster")
SUSPECT = re.compile(
    rf"""\b(?:srcset|(?:{"|".join(LOADING)})\s*=\s*["']?\s*(?:https?:)?//)""", re.IGNORECASE
)
"""Pages without this load nothing foreign, and are not parsed: that would take 2 s for all."""


def main(arguments: list[str]) -> int:
    """Write or check, build, and look for other hosts; print what is unclean."""
    if arguments not in (["write"], ["check"]):
        sys.stderr.write(f"{__doc__}")
        return 2
    sys.path.insert(0, str(ROOT))
    from reference import PAGES  # noqa: PLC0415 - It needs the path above.
    from settings_table import refresh  # noqa: PLC0415 - As above.

    problems = refresh(DOCS, is_writing=arguments == ["write"])
    stage({name: page() for name, page in PAGES.items()})
    problems += build() or list(foreign_resources(SITE))
    sys.stdout.write("".join(f"{problem}\n" for problem in problems))
    return 1 if problems else 0


def stage(made: dict[str, str]) -> None:
    """Write the sources of the site: docs/, pages of the repository, and those made of the code."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    pages = SOURCE / "pages"
    shutil.copytree(DOCS, pages)
    for path in DOCS.rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        if path == DOCS / "README.md":
            text = text.replace(REFERENCE_MARK, reference_list(made))
        name = str(path.relative_to(ROOT))
        (pages / site_name(name)).write_text(relink(text, name), encoding="utf-8")
    for name, target in ADDED.items():
        text = relink((ROOT / name).read_text(encoding="utf-8"), name)
        (pages / target).write_text(text, encoding="utf-8")
    for target, text in made.items():
        (pages / target).write_text(text, encoding="utf-8")
    settings = {
        "INHERIT": str(ROOT / "mkdocs.yml"),
        "docs_dir": str(pages),
        "site_dir": str(SITE),
        "nav": navigation(pages),
    }
    (SOURCE / "mkdocs.yml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")


def reference_list(made: dict[str, str]) -> str:
    """Return links to the pages made of the code, by their titles."""
    return "\n".join(f"- [{title_of(text)}]({name})" for name, text in made.items())


def title_of(text: str) -> str:
    """Return the first heading of a page."""
    return text.removeprefix("# ").partition("\n")[0]


def site_name(name: str) -> str | None:
    """Return a file's name in the site; None for a file that is not in it."""
    if name in ADDED:
        return ADDED[name]
    return name.removeprefix("docs/") if name.startswith("docs/") else None


def relink(text: str, name: str) -> str:
    """Point the links of a page to where their targets are in the site.

    A link to a file of the repository that is not in the site becomes its text.

    Args:
        text: The page, in Markdown.
        name: Its path in the repository.
    """
    here = posixpath.dirname(site_name(name) or "")

    def moved(match: re.Match[str]) -> str:
        mark, label, target = match.groups()
        if target.startswith("#") or re.match(r"[a-z]+:", target):
            return match.group()
        path, hash_sign, anchor = target.partition("#")
        found = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        there = site_name(found)
        if there is None:
            return label
        return f"{mark}[{label}]({posixpath.relpath(there, here or '.')}{hash_sign}{anchor})"

    parts = FENCE.split(text)
    return "".join(part if part.startswith("```") else LINK.sub(moved, part) for part in parts)


def navigation(pages: Path) -> list[object]:
    """Return the order of the pages: headings and lists of docs/README.md, then the decisions."""
    sections: list[tuple[int, str, list[object]]] = []
    for line in (pages / "README.md").read_text(encoding="utf-8").splitlines():
        heading = re.match(r"(##+) (.+)", line)
        entry = re.match(r"- \[([^\]]+)\]\(([^)]+\.md)\)", line)
        if heading:
            sections.append((len(heading[1]), heading[2], []))
        elif entry:
            sections[-1][2].append({entry[1]: entry[2]})
    found: list[object] = [{"Home": "README.md"}]
    for level, title, entries in sections:
        if level == 2:  # noqa: PLR2004 - A heading of the second level is a tab.
            found.append({title: entries})
            below = entries
        else:
            below.append({title: entries})
    decisions = sorted((pages / "adr").glob("[0-9]*.md"))
    listed = [{short_title(path): f"adr/{path.name}"} for path in decisions]
    return [*found, {"Decisions": ["adr/README.md", *listed]}]


def short_title(path: Path) -> str:
    """Return the heading of a decision."""
    return title_of(path.read_text(encoding="utf-8"))


def build() -> list[str]:
    """Build the site; return what MkDocs says when a link, an anchor or a page is missing."""
    done = subprocess.run(  # noqa: S603 - Our own command.
        [
            str(PROGRAMS / "mkdocs"),
            # Not --quiet: it drops warnings before --strict counts them.
            *("build", "--strict", "--clean", "-f", str(SOURCE / "mkdocs.yml")),
        ],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return [done.stdout.strip() or "mkdocs failed."] if done.returncode else []


def foreign_resources(site: Path) -> Iterator[str]:
    """Yield everything of another host that a page would load; links to follow are allowed."""
    for path in sorted(site.rglob("*")):
        if path.suffix not in (".html", ".css", ".svg"):
            continue
        text = path.read_text(encoding="utf-8")
        found = STYLE_URL.findall(text)
        if path.suffix != ".css" and SUSPECT.search(text):
            reader = Resources()
            reader.feed(text)
            found += reader.foreign
        yield from (f"{path.relative_to(site)} loads {address}" for address in found)


class Resources(html.parser.HTMLParser):
    """Addresses of other hosts that a page loads by its elements."""

    def __init__(self) -> None:
        """Begin with none."""
        super().__init__()
        self.foreign: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what an element loads; what `a` names is loaded only when a person follows it."""
        if tag == "a":
            return
        for name, value in attrs:
            if name.removeprefix("xlink:") in LOADING:
                addresses = (value or "").split("," if name == "srcset" else None)
                self.foreign += [one.strip() for one in addresses if FOREIGN.match(one)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
