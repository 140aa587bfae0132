"""Rules about the source tree that no compiler checks."""

import os
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from . import ROOT, pages

# Foreign code, and vector instructions: each crate with unsafe code is for nothing else.
_UNSAFE_CRATES = ("dpdk-sys-wrapper", "galois")
_LONGEST = 500
_DECISION = 225
_CODE = {".rs", ".py", ".sh", ".c", ".h"}
_NOT_OURS = {".git", "target", "__pycache__", "captures"}

# The tree must stand alone: nothing beside it, and no one's private paths.
# Spelled so that this file does not find itself.
_OUTSIDE = re.compile(r"/wor[k]/|\.\./share[d]\b|/hom[e]/\w")
_UNSAFE = re.compile(r"\bunsafe\s*(\{|fn\b|impl\b|trait\b|extern\b|\()")
_ALLOW = re.compile(r"#!?\[(allow|expect)\(")
# In documents: `crate/file::test`, `folder/file.ext` and [text](link).
_TEST = re.compile(r"`([\w-]+)/((?:\w+/)*\w+)::(\w+)`")
_PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)+\.(?:rs|c|py|sh|toml|md|service))`")
# Words for which docs/glossary.md has another; the change log keeps its own.
_REFUSED = {
    re.compile(r"\b[Hh]oles?\b"): "gap",
    re.compile(r"(?<!sign of )(?<!signs of )\blife\b(?! of a process)"): "incarnation",
    re.compile(r"\bplay(s|ed|ing)? (it |them )?out\b|\b[Pp]layout\b"): "pacing",
    re.compile(r"\bCx\b"): "Context",
    re.compile(r"\bVigour\b"): "WorkerHealth",
    re.compile(r"\b(Voice|Speaker)\b"): "Tx, FlowRef",
    re.compile(r"\blet_go\b"): "bypass",
    re.compile(r"\bbegin_again\b"): "reset",
    re.compile(r"\bhand_?over\b|\bhand(s|ed|ing)? (frames |others' )?over\b(?! (by|`))"): "handoff",
    re.compile(r"\bhand(s|ed|ing)?[_ ]on\b"): "deliver, forward",
    re.compile(r"\blet(s|ting)? go of\b|\bforgets? (a|the) flow\b"): "release, reset",
    re.compile(r"\bmade_to_ask|\bmade to ask\b|\bmake_ask\b"): "AckReq",
    re.compile(r"\bneed not be said\b|\bpass(es|ed)? unseen\b"): "pass, or the fact itself",
}
_KEEP_THEIRS = {"CHANGELOG.md", "glossary.md"}
# A rule of one of the protocols, and a citation of one.
_PROTOCOLS = ("protocol.md", "tunnel.md")
_RULE = re.compile(r"\*\*(R-[A-Z]+-\d+)\*\*")
_CITED = re.compile(r"\bR-[A-Z]+-\d+\b")
_DAGGER = "\N{DAGGER}"
_LINK = re.compile(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)")


def _files() -> Iterator[Path]:
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(set(folders) - _NOT_OURS)
        for name in sorted(set(names) - _NOT_OURS):
            yield Path(folder, name)


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return None


def _in_file(path: Path, text: str) -> Iterator[str]:
    name = path.relative_to(ROOT)
    lines = text.splitlines()
    if path.suffix in _CODE and len(lines) > _LONGEST:
        yield f"{name}: {len(lines)} lines; {_LONGEST} at most, each file about one thing"
    for number, line in enumerate(lines, 1):
        if _OUTSIDE.search(line):
            yield f"{name}:{number}: names a path outside the tree: {line.strip()}"
        if path.suffix != ".rs":
            continue
        code = line.split("//")[0]
        if name.parts[0] not in _UNSAFE_CRATES and _UNSAFE.search(code):
            yield f"{name}:{number}: unsafe code; it belongs into {_UNSAFE_CRATES[0]}"
        if _ALLOW.search(code) and not _reasoned(lines, number - 1):
            yield f"{name}:{number}: a lint is switched off without a reason: {line.strip()}"


def _refused(path: Path, text: str) -> Iterator[str]:
    """Words for which the glossary has another."""
    name = path.relative_to(ROOT)
    if path.suffix not in {".rs", ".md"} or path.name in _KEEP_THEIRS:
        return
    for number, line in enumerate(text.splitlines(), 1):
        for word, instead in _REFUSED.items():
            if found := word.search(line):
                yield f"{name}:{number}: \"{found[0]}\": docs/glossary.md has {instead} for it"


def _in_document(path: Path, text: str) -> Iterator[str]:
    """Everything that a document names must exist."""
    name = path.relative_to(ROOT)
    for crate, file, test in set(_TEST.findall(text)):
        folders = [ROOT / crate / folder for folder in ("tests/it", "tests", "src")]
        sources = [source for folder in folders if (source := folder / f"{file}.rs").exists()]
        if not any(f"fn {test}(" in source.read_text() for source in sources):
            yield f"{name}: there is no test {test} in {file}.rs of {crate}/tests/it, {crate}/tests or {crate}/src"
    for other in set(_PATH.findall(text)):
        if not (ROOT / other).exists():
            yield f"{name}: there is no file {other}"
    # The simulator's templates become pages of docs/.
    folder = ROOT / "docs" if path.parent.name == "pages" else path.parent
    for other in set(_LINK.findall(text)):
        if not (folder / other).exists():
            yield f"{name}: a link leads nowhere: {other}"


def _decisions() -> Iterator[str]:
    """The index has every decision, and each is short."""
    folder = ROOT / "docs" / "decisions"
    index = _LINK.findall((folder / "README.md").read_text())
    for path in sorted(folder.glob("[0-9]*.md")):
        words = len(path.read_text().split())
        if words > _DECISION:
            yield f"docs/decisions/{path.name}: {words} words; {_DECISION} at most"
        if path.name not in index:
            yield f"docs/decisions/README.md: has no row for {path.name}"


def _protocol(texts: dict[Path, str]) -> Iterator[str]:
    """Every rule of the protocols is cited in code and in a test, and every citation has a rule."""
    stated = [(rule, name) for name in _PROTOCOLS for rule in _RULE.findall(texts[ROOT / "docs" / name])]
    found = [rule for rule, _ in stated]
    for rule in sorted({rule for rule in found if found.count(rule) > 1}):
        yield f"docs: {rule} is stated twice"
    in_code: set[str] = set()
    in_tests: set[str] = set()
    for path, text in texts.items():
        name = path.relative_to(ROOT)
        if path.suffix not in {".rs", ".md"}:
            continue
        if _DAGGER in text:
            yield f"{name}: has a {_DAGGER}; cite the rule of docs/protocol.md by its id"
        for rule in sorted(set(_CITED.findall(text)) - set(found)):
            yield f"{name}: cites {rule}, which no document of {', '.join(_PROTOCOLS)} has"
        if path.suffix == ".rs":
            code, _, tests = text.partition("#[cfg(test)]")
            is_test = "tests" in name.parts
            in_tests.update(_CITED.findall(text if is_test else tests))
            in_code.update([] if is_test else _CITED.findall(code))
    for rule, name in stated:
        if rule not in in_code:
            yield f"docs/{name}: no code cites {rule}"
        if rule not in in_tests:
            yield f"docs/{name}: no test cites {rule}"


def _reasoned(lines: list[str], at: int) -> bool:
    """A comment on the line or above it, or a `reason` in the attribute."""
    attribute = "".join(lines[at : at + 4]).split("]")[0]
    return "//" in lines[at] or "reason" in attribute or (at > 0 and "//" in lines[at - 1])


def _lints() -> Iterator[str]:
    """Every crate but those for unsafe code takes the workspace's lints, which forbid it."""
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
    if workspace["lints"]["rust"].get("unsafe_code") != "forbid":
        yield 'Cargo.toml: [workspace.lints.rust] must say unsafe_code = "forbid"'
    for member in workspace["members"]:
        crate = tomllib.loads((ROOT / member / "Cargo.toml").read_text())
        if member not in _UNSAFE_CRATES and crate.get("lints") != {"workspace": True}:
            yield f"{member}/Cargo.toml: needs [lints] workspace = true"


def main() -> int:
    found = [*_lints(), *_decisions()]
    texts = {path: text for path in _files() if (text := _text(path)) is not None}
    for path, text in texts.items():
        found += _in_file(path, text)
        found += _refused(path, text)
        if path.suffix == ".md":
            found += _in_document(path, text)
    found += _protocol(texts)
    found += pages.problems(texts)
    for problem in found:
        print(problem)
    print(f"{len(texts)} files, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
