"""cargo-deny: built once into the cache, in the background while other steps run."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from . import ROOT
from .runner import end_group

VERSION = "0.20.2"

# Fetching the advisory database takes seconds where it can be reached.
_FETCH_LIMIT_S = 60
# The tool runs for a second: what counts is how soon it is built.
_QUICK_TO_BUILD = {
    "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0",
    "CARGO_PROFILE_RELEASE_LTO": "off",
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
    "CARGO_PROFILE_RELEASE_DEBUG": "0",
}


def _folder() -> Path:
    return Path(os.environ["LR2_CACHE"]) / f"cargo-deny-{VERSION}"


def _program() -> Path:
    return _folder() / "bin" / "cargo-deny"


def _building() -> Path:
    return _folder() / "target"


def _install() -> tuple[list[str], dict[str, str]]:
    command = ["cargo", "install", "cargo-deny", "--locked", "--version", VERSION, "--root", str(_folder())]
    return command, {**os.environ, **_QUICK_TO_BUILD, "CARGO_TARGET_DIR": str(_building())}


def _low_priority() -> None:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


@contextlib.contextmanager
def installing(logs: Path, wanted: bool) -> Iterator[None]:
    """Builds the tool, if it is `wanted` and missing, on what the steps leave idle."""
    if not wanted or _program().exists():
        yield
        return
    command, environment = _install()
    with (logs / "deny-install.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_low_priority,
        )
        try:
            yield
        finally:
            if process.poll() is None:
                end_group(process)


def _run(*arguments: str, limit_s: float | None = None) -> int:
    return subprocess.run([_program(), *arguments], cwd=ROOT, timeout=limit_s, check=False).returncode


def _advisories_reachable() -> bool:
    try:
        return _run("fetch", "db", limit_s=_FETCH_LIMIT_S) == 0
    except subprocess.TimeoutExpired:
        return False


def main() -> int:
    if not _program().exists():
        # Waits for the build in the background, which holds the target folder's
        # lock, and finds everything done; or does it all, if that one failed.
        command, environment = _install()
        if code := subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
            return code
    shutil.rmtree(_building(), ignore_errors=True)
    checks = ["bans", "licenses", "sources"]
    if _advisories_reachable():
        checks.append("advisories")
    else:
        print("The advisory database (github.com/rustsec) can't be reached: advisories are not checked.", flush=True)
    # The fuzz targets are a workspace of their own.
    for folder in (ROOT, ROOT / "fuzz"):
        manifest = ("--manifest-path", str(folder / "Cargo.toml"))  # The rules are beside it.
        if code := _run(*manifest, "--locked", "check", "--hide-inclusion-graph", *checks):
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
