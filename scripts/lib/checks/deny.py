"""cargo-deny and cargo-machete, built once into the cache: `python3 -m checks.deny [--build]`, by scripts/test."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from . import ROOT

_TOOLS = {"cargo-deny": "0.20.2", "cargo-machete": "0.9.2"}

# Fetching the advisory database takes seconds where it can be reached.
_FETCH_LIMIT_S = 60
# The tools run for a second: most of the time goes into the build.
_QUICK_TO_BUILD = {
    "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0",
    "CARGO_PROFILE_RELEASE_LTO": "off",
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
    "CARGO_PROFILE_RELEASE_DEBUG": "0",
}


def _folder(tool: str) -> Path:
    return Path(os.environ["LR2_CACHE"]) / f"{tool}-{_TOOLS[tool]}"


def _program(tool: str) -> Path:
    return _folder(tool) / "bin" / tool


def _building(tool: str) -> Path:
    return _folder(tool) / "target"


def _install(tool: str) -> tuple[list[str], dict[str, str]]:
    command = ["cargo", "install", tool, "--locked", "--version", _TOOLS[tool], "--root", str(_folder(tool))]
    return command, {**os.environ, **_QUICK_TO_BUILD, "CARGO_TARGET_DIR": str(_building(tool))}


def _build() -> int:
    """Build the tools that are missing. Exit code."""
    for tool in _TOOLS:
        if not _program(tool).exists():
            command, environment = _install(tool)
            if code := subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
                return code
        shutil.rmtree(_building(tool), ignore_errors=True)
    return 0


def _run(tool: str, *arguments: str, limit_s: float | None = None) -> int:
    return subprocess.run([_program(tool), *arguments], cwd=ROOT, timeout=limit_s, check=False).returncode


def _advisories_reachable() -> bool:
    try:
        return _run("cargo-deny", "fetch", "db", limit_s=_FETCH_LIMIT_S) == 0
    except subprocess.TimeoutExpired:
        return False


def main() -> int:
    if code := _build():
        return code
    if sys.argv[1:] == ["--build"]:
        return 0
    if code := _run("cargo-machete", "--skip-target-dir", str(ROOT)):
        return code
    checks = ["bans", "licenses", "sources"]
    if _advisories_reachable():
        checks.append("advisories")
    else:
        print("The advisory database (github.com/rustsec) can't be reached: advisories are not checked.", flush=True)
    # The fuzz targets are a workspace of their own.
    for folder in (ROOT, ROOT / "fuzz"):
        manifest = ("--manifest-path", str(folder / "Cargo.toml"))  # The rules are beside it.
        if code := _run("cargo-deny", *manifest, "--locked", "check", "--hide-inclusion-graph", *checks):
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
