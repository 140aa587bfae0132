"""scripts/bind-nics on a tree of files that stands for /sys: `python3 -m checks.bind_nics`, in scripts/test."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from . import ROOT

_SCRIPT = ROOT / "scripts" / "bind-nics"
_NIC = "0000:3b:00.0"
_BUSY = "0000:3b:00.1"
_DISK = "0000:01:00.0"
_ALONE = "0000:5e:00.0"


def _device(root: Path, address: str, kind: str, driver: str | None, interface: tuple[str, str] | None = None, group: str | None = "7") -> None:
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    (folder / "class").write_text(f"{kind}\n")
    (folder / "numa_node").write_text("0\n")
    (folder / "driver_override").write_text("(null)\n")
    if driver:
        bound = root / "sys/bus/pci/drivers" / driver
        bound.mkdir(parents=True, exist_ok=True)
        (folder / "driver").symlink_to(bound)
    if interface:
        name, state = interface
        (folder / "net" / name).mkdir(parents=True)
        (folder / "net" / name / "operstate").write_text(f"{state}\n")
    if group:
        members = root / "sys/kernel/iommu_groups" / group / "devices"
        members.mkdir(parents=True, exist_ok=True)
        (members / address).symlink_to(folder)
        (folder / "iommu_group").symlink_to(members.parent)


def _tree(root: Path) -> None:
    (root / "sys/bus/pci/drivers/vfio-pci").mkdir(parents=True)
    (root / "sys/bus/pci/drivers_probe").write_text("")
    _device(root, _NIC, "0x020000", "ice", ("ens1f0", "down"))
    _device(root, _BUSY, "0x020000", "ice", ("ens1f1", "up"), group="8")
    _device(root, _DISK, "0x010802", "nvme", group="9")
    _device(root, _ALONE, "0x020000", "ice", ("ens2f0", "down"), group=None)


def _run(root: Path, *words: str) -> tuple[int, str]:
    ended = subprocess.run([_SCRIPT, "--root", str(root), *words], capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def _complaints(root: Path) -> Iterator[str]:
    _tree(root)
    devices, drivers = root / "sys/bus/pci/devices", root / "sys/bus/pci/drivers"
    override = devices / _NIC / "driver_override"

    refused = {
        ("bind", "3b:00"): "no PCI address",
        ("bind", "0000:3b:00.7"): "no such PCI device",
        ("bind", _DISK): "is no network port",
        ("bind", _BUSY): "interface ens1f1 is up",
        ("bind", _NIC, _DISK): "is no network port",
        ("bind", _ALONE): "there is no IOMMU",
        ("bind",): "give the PCI addresses",
        ("undo", _NIC): "was not bound by this script",
        ("undo", "--all"): "no port was bound",
        ("--colour",): "no such option",
    }
    for words, part in refused.items():
        code, said = _run(root, *words)
        if code != 2 or part not in said or said.count("\n") != 1:
            yield f"{' '.join(words)}: exit code {code}: {said}"
    if override.read_text() != "(null)\n":
        yield "a command that was refused has written"

    code, said = _run(root, "--dry-run", "bind", "3b:00.0")
    expected = [
        f"echo vfio-pci > {override}",
        f"echo {_NIC} > {drivers}/ice/unbind",
        f"echo {_NIC} > {root}/sys/bus/pci/drivers_probe",
    ]
    if code or said.splitlines() != expected:
        yield f"--dry-run bind: exit code {code}: {said}"
    if override.read_text() != "(null)\n" or (root / "run").exists():
        yield "--dry-run has written"

    code, said = _run(root, "bind", _NIC)
    if code or "ice -> vfio-pci" not in said:
        yield f"bind: exit code {code}: {said}"
    if override.read_text() != "vfio-pci\n" or (drivers / "ice/unbind").read_text() != f"{_NIC}\n":
        yield "bind did not give the port to vfio-pci"

    # As the kernel answers.
    (devices / _NIC / "driver").unlink()
    (devices / _NIC / "driver").symlink_to(drivers / "vfio-pci")
    code, said = _run(root, "status")
    if code or f"{_NIC}  driver vfio-pci" not in said or _DISK in said:
        yield f"status: exit code {code}: {said}"
    code, said = _run(root, "bind", _NIC)
    if code or "has vfio-pci already" not in said:
        yield f"a second bind: exit code {code}: {said}"
    code, said = _run(root, "undo", "--all")
    if code or "back to ice" not in said:
        yield f"undo: exit code {code}: {said}"
    if override.read_text() != "\n" or (drivers / "vfio-pci/unbind").read_text() != f"{_NIC}\n":
        yield "undo did not take the port from vfio-pci"
    if list((root / "run/lr2-bind-nics").iterdir()):
        yield "undo keeps what it has undone"


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="lr2-bind-nics.") as folder:
        found = list(_complaints(Path(folder)))
    for complaint in found:
        print(complaint)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
