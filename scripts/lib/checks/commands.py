"""The commands in the README and in docs/, as far as they can be checked without the hardware, time and network that they
want: `python3 -m checks.commands`, in scripts/test.

Programs, subcommands and options have to exist, as do the files, crates, tests and steps that they name; what a script takes
is what it says with --check. What is over in a moment is run.
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from debs import PROGRAMS

from . import ROOT

_PROGRAMS = ROOT / "target" / "release"
_SCRIPTS = {
    "bench": "bench",
    "demo": "demo",
    "fuzz": "checks.fuzz",
    "instructions": "checks.instructions",
    "package": "debs",
    "rdma-e2e": "rdma_e2e",
    "test": "checks",
    "two-pairs": "two_pairs",
}
"""The module of each, which says with --check whether it takes its options."""
# Of the box or of Debian.
_FOREIGN = ("apt", "cd", "curl", "ls", "scp", "systemctl", "tcpdump", "tshark", "lr2-bind-nics")
_OURS = re.compile(r"(\w+=\S+ )*(\./scripts/\w|cargo \w|lr2-\w+ \S|lr2ctl \S)")
_PLACEHOLDER = re.compile(r"[A-Z]+(\.\w+|-[A-Z]+)?$|…|KEY=VALUE.*")


class Wrong(Exception):
    """Why a command can't be as it is written."""


def _run(command: list[str], folder: Path = ROOT) -> tuple[int, str]:
    ended = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False, timeout=120)
    return ended.returncode, ended.stdout + ended.stderr


def _commands(document: Path) -> Iterator[str]:
    """The commands of a document: in code blocks, and those of ours within a line."""
    text = document.read_text()
    blocks = re.compile(r"```(?:sh)?\n(.*?)```", re.DOTALL)
    for block in blocks.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            line = re.sub(r"\s+# .*|^\$ ", "", line.strip())
            words = line.split(maxsplit=1)
            if words and (words[0] in _FOREIGN or _OURS.match(line) or line.startswith("./scripts/")):
                yield line
    for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", blocks.sub("", text)):
        line = " ".join(code.split())
        # A blank line in it: the backticks do not belong together.
        if _OURS.match(line) and "\n\n" not in code:
            yield line


@cache
def _help(program: str, *subcommands: str) -> str:
    code, said = _run([str(_PROGRAMS / program), *subcommands, "--help"])
    if code != 0:
        raise Wrong(f"{program} {' '.join(subcommands)} --help: {said.strip().splitlines()[0]}")
    return said


def _program(words: list[str], folder: Path) -> None:
    """One of our programs: its subcommand and options."""
    program, *rest = words
    subcommands = []
    while rest and f"\n  {rest[0]} " in _help(program, *subcommands).partition("\nCommands:")[2].partition("\nOptions:")[0]:
        subcommands.append(rest.pop(0))
    said = _help(program, *subcommands)
    if "\nCommands:" in said and rest and not rest[0].startswith("-"):
        raise Wrong(f"{program} has no command {rest[0]}")
    for word in rest:
        option = word.partition("=")[0]
        if option.startswith("--") and not re.search(rf"{option}\b", said):
            raise Wrong(f"{' '.join([program, *subcommands])} has no option {option}")
        _file(word, folder)
    if (program, *subcommands) == ("lr2-sim", "plan") and rest or program == "lr2-analyze" and (ROOT / rest[0]).is_file():
        code, said = _run([str(_PROGRAMS / program), *words[1:]])
        if code != 0:
            raise Wrong(f"exit code {code}: {said.strip()}")


def _file(word: str, folder: Path) -> None:
    """What looks like a file of the tree has to be one."""
    first = word.split("/")[0]
    of_tree = "/" in word and (ROOT / first).is_dir() and not first.startswith((".", "target")) and first
    of_folder = folder != ROOT and word.endswith(".toml")
    if (of_tree or of_folder) and not _PLACEHOLDER.fullmatch(Path(word).name) and not (folder / word).exists():
        raise Wrong(f"there is no {word}")


def _script(words: list[str]) -> None:
    name = words[0].removeprefix("./scripts/")
    if not (ROOT / "scripts" / name).is_file():
        raise Wrong(f"there is no {words[0]}")
    rest = [word for word in words[1:] if not _PLACEHOLDER.fullmatch(word)]
    if len(rest) < len(words) - 1:
        # The placeholder is an option's value, without which the script would refuse it.
        rest = [word for word in rest if not word.startswith("--")]
    if name in _SCRIPTS and "--help" not in rest:
        code, said = _run([sys.executable, "-m", _SCRIPTS[name], "--check", *rest], ROOT / "scripts" / "lib")
        if code != 0:
            raise Wrong(said.strip().rpartition("\n")[2])


@cache
def _packages() -> dict[str, dict[str, str]]:
    """Of each crate: its targets, and the folder or file of each."""
    crates = {}
    for manifest in (ROOT / "Cargo.toml", ROOT / "fuzz" / "Cargo.toml"):
        code, said = _run(["cargo", "metadata", "--no-deps", "--format-version", "1", "--locked", "--manifest-path", str(manifest)])
        if code != 0:
            raise Wrong(said)
        for crate in json.loads(said)["packages"]:
            crates[crate["name"]] = {target["name"]: target["src_path"] for target in crate["targets"]}
    return crates


def _cargo(words: list[str]) -> None:
    crates, target, filters = [], None, []
    options, _, passed = " ".join(words[2:]).partition(" -- ")
    rest = iter(shlex.split(options))
    for word in rest:
        if word == "-p":
            crates.append(next(rest))
        elif word in ("--test", "--bench", "--bin", "--example"):
            target = next(rest)
        elif word in ("--features", "--manifest-path", "--shard", "--sharding", "--timeout"):
            next(rest)
        elif not word.startswith("-"):
            filters.append(word)
    for crate in crates:
        if crate not in _packages():
            raise Wrong(f"there is no crate {crate}")
        if target and target not in _packages()[crate]:
            raise Wrong(f"{crate} has no target {target}")
    if words[1] == "run" and target in PROGRAMS:
        _program([target, *shlex.split(passed)], ROOT)
    filters += [word for word in shlex.split(passed) if not word.startswith("-")]
    if words[1] == "test" and filters:
        source = Path(_packages()[crates[0]][target or crates[0].replace("-", "_")])
        # Of one file, or of a folder with modules.
        files = [source] if target and source.name != "main.rs" else [*source.parent.rglob("*.rs")]
        for name in filters:
            module, _, test = name.rpartition("::")
            if not any(re.search(rf"(fn|mod) \w*{test}", file.read_text()) for file in files if module in (file.stem, "")):
                raise Wrong(f"no test of {crates[0]} is named {name}")


@cache
def _sources() -> str:
    files = (file for crate in ROOT.iterdir() if (crate / "Cargo.toml").is_file() for file in crate.rglob("*.rs") if "target" not in file.parts)
    return "\n".join(file.read_text() for file in files)


def _curl(line: str) -> None:
    """A page of the gateway's has to be in its sources."""
    page = re.search(r"http://[\w.:]+/(\w*)", line)
    if page and f'"/{page[1]}' not in _sources():
        raise Wrong(f"the gateway has no page /{page[1]}")


def _check(line: str, folder: Path) -> None:
    # What may be left out.
    words = shlex.split(re.sub(r"\[[^]]*\]", "", line))
    while "=" in words[0]:
        name = words.pop(0).partition("=")[0]
        if f'"{name}"' not in _sources():
            raise Wrong(f"nothing reads {name}")
    if "|" in words:
        words = words[: words.index("|")]
    program = words[0]
    if program == "cargo":
        _cargo(words)
    elif program.startswith("./scripts/"):
        _script(words)
    elif program == "curl":
        _curl(line)
    elif program in PROGRAMS:
        _program([word for word in words if not _PLACEHOLDER.fullmatch(word)], folder)
    elif program not in _FOREIGN:
        raise Wrong(f"nobody knows {program}")


def main() -> int:
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    count, problems = 0, []
    for document in documents:
        folder = ROOT
        for line in dict.fromkeys(_commands(document)):
            count += 1
            if line.startswith("cd "):
                folder = ROOT / line.split()[1]
            try:
                _check(line, folder)
            except (Wrong, ValueError, StopIteration) as error:
                problems.append(f"{document.relative_to(ROOT)}: {line}\n    {error}")
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{count} commands in {len(documents)} documents, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
