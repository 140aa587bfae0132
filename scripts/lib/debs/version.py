"""The version of the packages, and their change log."""

import functools
import subprocess
import tomllib
from email.utils import formatdate

from . import ROOT


def _git(*arguments: str) -> str:
    """Nothing where there is no git, or no repository."""
    try:
        return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


@functools.cache
def version() -> str:
    """That of the workspace at its tag; before it one that sorts before the release, and by the time of the commit."""
    release: str = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    if f"v{release}" in _git("tag", "--points-at", "HEAD").splitlines():
        return release
    commit = _git("show", "-s", "--format=%cd.%h", "--date=format:%Y%m%d%H%M%S", "HEAD")
    return f"{release}~{f'git{commit}' if commit else 'local'}"


def changelog() -> str:
    # Of the commit, so that the same tree makes the same packages.
    date = formatdate(int(_git("show", "-s", "--format=%ct", "HEAD") or 0))
    return (
        f"lr2-gateway ({version()}) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n"
        f" -- LR2 Gateway maintainers <lr2-gateway@example.invalid>  {date}\n"
    )
