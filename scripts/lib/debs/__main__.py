"""`python3 -m debs`: lays out a folder for debhelper, outside the source tree, and runs it."""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from . import OUT, PACKAGES, PROGRAMS, ROOT, TARGET
from .crates import linked_crates
from .papers import bill_of_materials, licences
from .version import changelog, version

_WORK = TARGET / "package"
_SHELLS = {"bash": "{}", "zsh": "_{}", "fish": "{}.fish"}


def make(programs: Path) -> list[Path]:
    """Packages of the `programs` of a folder, in OUT; those of an earlier version go."""
    shutil.rmtree(_WORK, ignore_errors=True)
    shutil.rmtree(OUT, ignore_errors=True)
    shutil.copytree(ROOT / "packaging" / "debian", _WORK / "debian")
    (_WORK / "tree").symlink_to(ROOT)
    (_WORK / "bin").symlink_to(programs)
    _made_from_programs(programs, _WORK / "made")
    _made_from_metadata(_WORK / "made")
    for unit in ("lr2-gateway.service", "lr2-gateway@.service"):
        shutil.copy(ROOT / "configs" / unit, _WORK / "debian" / unit)
    (_WORK / "debian" / "changelog").write_text(changelog())
    (_WORK / "debian" / "copyright").write_text(_copyright())
    # No packages of debug information: the programs with theirs are where they were built.
    environment = {**os.environ, "DEB_BUILD_OPTIONS": "noautodbgsym"}
    subprocess.run(["debian/rules", "binary"], cwd=_WORK, env=environment, check=True)
    OUT.mkdir(parents=True)
    # debhelper puts them beside the folder.
    made = [_WORK.parent / f"{name}_{version()}_{_architecture()}.deb" for name in PACKAGES]
    return [Path(shutil.move(package, OUT / package.name)) for package in made]


def _made_from_programs(programs: Path, folder: Path) -> None:
    """Man pages and completions, which the programs write."""
    (folder / "man").mkdir(parents=True)
    for name in PROGRAMS:
        subprocess.run([programs / name, "man", folder / "man"], check=True)
        for shell, file in _SHELLS.items():
            path = folder / "completions" / shell / file.format(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as out:
                subprocess.run([programs / name, "completions", shell], stdout=out, check=True)


def _made_from_metadata(folder: Path) -> None:
    crates = linked_crates()
    (folder / "THIRD-PARTY-LICENSES").write_text(licences(crates))
    (folder / "sbom.cdx.json").write_text(bill_of_materials(crates, version()))


def _copyright() -> str:
    # An empty line of a field is a full stop.
    mit = "".join(f" {line.strip() or '.'}\n" for line in (ROOT / "LICENSE-MIT").read_text().splitlines())
    return (
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
        "Upstream-Name: LR2 Gateway\n"
        "Comment: THIRD-PARTY-LICENSES beside this file has the licences of the crates that are linked into the programs,\n"
        " and sbom.cdx.json names them with versions and checksums.\n"
        "\n"
        "Files: *\n"
        "Copyright: LR2 Gateway contributors\n"
        "License: Apache-2.0 or MIT\n"
        "\n"
        "License: Apache-2.0\n"
        " The text is in /usr/share/common-licenses/Apache-2.0.\n"
        "\n"
        f"License: MIT\n{mit}"
    )


def _architecture() -> str:
    return subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/package",
        description=f"Makes Debian packages in {OUT}: {', '.join(PACKAGES)}.",
        epilog="Exit code: 0 all made, 1 one could not be made, 2 could not run.",
    )
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    if parser.parse_args().check:
        return 0
    try:
        packages = make(Path(os.environ.get("LR2_BIN", TARGET / "release")).resolve())
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"scripts/package: {error}", file=sys.stderr)
        return 1
    for package in packages:
        print(package)
    return 0


if __name__ == "__main__":
    sys.exit(main())
