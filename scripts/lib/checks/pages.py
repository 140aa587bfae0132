"""Checks the Markdown pages: a link to a heading needs the heading, and the name of a key needs the key."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from . import ROOT

_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+?) *#* *$", re.MULTILINE)
_LINKED = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
# [text](file.md#anchor), and [text](#anchor) within a page.
_ANCHORED = re.compile(r"\]\(([^)#\s:]*)#([^)\s]+)\)")
_CONFIGURATION = ROOT / "docs" / "configuration.md"
# A section, as ## `[lan]` and `[wan]` or ## `[[pair]]`, and the rows behind it. A test of the gateway keeps them true to the parser.
_SECTION = re.compile(r"`\[+(\w+)\]+`")
_ROW = re.compile(r"\| `(\w+)` \|")
_CODE = re.compile(r"`([^`\n]+)`")
# A key as it stands by itself, or before its value.
_KEY = re.compile(r"([a-z_]+)\.([a-z][a-z_]*)(?= = |$)")
# Names of files, and modules of the crates, that begin as a section does.
_FILE = {"c", "csv", "h", "html", "json", "md", "pcap", "pcapng", "py", "rs", "sock", "toml"}


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    found: set[str] = set()
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        plain = _LINKED.sub(r"\1", heading).replace("`", "").lower()
        anchor = base = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = 0
        while anchor in found:
            number += 1
            anchor = f"{base}-{number}"
        found.add(anchor)
    return found


def keys(configuration: str) -> dict[str, set[str]]:
    """The keys of each section, by the rows of docs/configuration.md."""
    found: dict[str, set[str]] = {}
    sections: list[str] = []
    for line in configuration.splitlines():
        if line.startswith("## "):
            sections = _SECTION.findall(line)
        elif row := _ROW.match(line):
            for section in sections:
                found.setdefault(section, set()).add(row[1])
    return found


def dead_anchors(texts: Mapping[Path, str]) -> Iterator[str]:
    """Links to a heading that its page does not have; that the page exists is another rule."""
    of_page: dict[Path, set[str]] = {}
    for path, text in texts.items():
        # The simulator's templates become pages of docs/.
        folder = ROOT / "docs" if path.parent.name == "pages" else path.parent
        for other, anchor in sorted(set(_ANCHORED.findall(_FENCE.sub("", text)))):
            page = (folder / other).resolve() if other else path
            if page in texts and anchor not in of_page.setdefault(page, anchors(texts[page])):
                yield f"{path.relative_to(ROOT)}: a link leads to no heading: {other}#{anchor}"


def unknown_keys(texts: Mapping[Path, str]) -> Iterator[str]:
    """Names such as `recovery.mode` that are no keys of the configuration; the change log may tell of those that were."""
    known = keys(texts[_CONFIGURATION])
    if not {"lan", "wan", "recovery"} <= known.keys():
        yield f"{_CONFIGURATION.relative_to(ROOT)}: its sections and their keys are not found"
    for path, text in texts.items():
        name = path.relative_to(ROOT)
        if name.name == "CHANGELOG.md":
            continue
        for code in sorted(set(_CODE.findall(_FENCE.sub("", text)))):
            match = _KEY.match(code)
            if match and match[1] in known and match[2] not in known[match[1]] | _FILE:
                yield f"{name}: there is no key {match[1]}.{match[2]}: docs/configuration.md has {', '.join(sorted(known[match[1]]))}"


def problems(texts: Mapping[Path, str]) -> Iterator[str]:
    """Of these texts, by their paths."""
    pages = {path: text for path, text in texts.items() if path.suffix == ".md"}
    yield from dead_anchors(pages)
    yield from unknown_keys(pages)
