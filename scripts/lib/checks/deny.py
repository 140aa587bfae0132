"""cargo-deny and cargo-machete: built once into the cache, in the background while other steps run."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from . import ROOT
from .runner import end_group, low_priority

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


@contextlib.contextmanager
def installing(logs: Path, wanted: bool) -> Iterator[None]:
    """Builds the tools, if they are `wanted` and missing, on the time that the steps leave idle."""
    with contextlib.ExitStack() as builds:
        for tool in _TOOLS if wanted else ():
            builds.enter_context(_building_in_background(tool, logs))
        yield


@contextlib.contextmanager
def _building_in_background(tool: str, logs: Path) -> Iterator[None]:
    if _program(tool).exists():
        yield
        return
    command, environment = _install(tool)
    with (logs / f"{tool}-install.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=low_priority,
        )
        try:
            yield
        finally:
            if process.poll() is None:
                end_group(process)


def _run(tool: str, *arguments: str, limit_s: float | None = None) -> int:
    return subprocess.run([_program(tool), *arguments], cwd=ROOT, timeout=limit_s, check=False).returncode


def _advisories_reachable() -> bool:
    try:
        return _run("cargo-deny", "fetch", "db", limit_s=_FETCH_LIMIT_S) == 0
    except subprocess.TimeoutExpired:
        return False


def main() -> int:
    for tool in _TOOLS:
        if not _program(tool).exists():
            # Waits for the build in the background, which holds the target folder's
            # lock, and finds everything done; or does it all, if that one failed.
            command, environment = _install(tool)
            if code := subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
                return code
        shutil.rmtree(_building(tool), ignore_errors=True)
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
