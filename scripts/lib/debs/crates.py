"""The crates that are linked into the programs, as cargo and Cargo.lock know them."""

import json
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

from . import ROOT

# The crates of the workspace that have programs.
_PROGRAMS = {"gateway", "ctl", "testbed", "simulator", "analysis"}
_TEXTS = ("LICEN", "COPYING", "COPYRIGHT", "NOTICE")


@dataclass(frozen=True)
class Crate:
    """A crate of a registry."""

    name: str
    version: str
    licence: str
    """An SPDX expression."""
    authors: tuple[str, ...]
    checksum: str
    """SHA-256 of its archive."""
    folder: Path

    def texts(self) -> list[str]:
        """The licences and notices in its archive."""
        files = [path for path in sorted(self.folder.iterdir()) if path.is_file() and path.name.upper().startswith(_TEXTS)]
        return [path.read_text(errors="replace").strip() for path in files]


def linked_crates() -> list[Crate]:
    """By name; without those that only tests or build scripts need."""
    host = subprocess.run(["rustc", "-vV"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    triple = host.partition("host: ")[2].split()[0]
    command = ["cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={triple}"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    dependencies = {node["id"]: node["deps"] for node in metadata["resolve"]["nodes"]}
    found: set[str] = set()
    ahead = [name for name, package in packages.items() if package["name"] in _PROGRAMS and not package["source"]]
    while ahead:
        if (here := ahead.pop()) not in found:
            found.add(here)
            ahead += [to["pkg"] for to in dependencies[here] if any(kind["kind"] is None for kind in to["dep_kinds"])]
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    checksums = {(package["name"], package["version"]): package.get("checksum", "") for package in lock}
    crates = [_crate(packages[name], checksums) for name in found if packages[name]["source"]]
    return sorted(crates, key=lambda crate: (crate.name, crate.version))


def _crate(package: dict, checksums: dict[tuple[str, str], str]) -> Crate:
    name, number = package["name"], package["version"]
    return Crate(
        name,
        number,
        (package["license"] or "see its licence file").replace("/", " OR "),
        tuple(package["authors"]),
        checksums[name, number],
        Path(package["manifest_path"]).parent,
    )
