"""The Debian packages in a clean system: `python3 -m checks.packages`, in scripts/test.

Makes the packages of the programs that are built, installs them with what they depend on into a chroot that debootstrap
made, and does there what an operator does first: the manual, `--check` on the configuration that the package brings,
an upgrade, removal and purge. Units are judged by systemd-analyze, and run by a systemd that is booted in it. Nothing of it runs or stays on this machine,
but for an archive of the bare system in the cache.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from debs import OUT, PACKAGES, PROGRAMS
from lr2run import RunDir, tidy_end

from . import booted

_CODENAME = "bookworm"
_MIRROR = "http://deb.debian.org/debian"
_BARE = Path(os.environ["LR2_CACHE"]) / f"{_CODENAME}.tar"
# The bare system's package lists get old.
_FRESH_S = 3 * 24 * 3600
_UNITS = ("lr2-gateway.service", "lr2-gateway@.service")
_WORST_EXPOSURE = 4.0
_LIMIT_S = 580
_EXPOSURE = re.compile(r"Overall exposure level for \S+: ([\d.]+)")

# What runs in the chroot: its name, and a script of sh. One that fails is a complaint, with its output.
_INSTALL = ("install", "apt-get -qq install -y --no-install-recommends man-db systemd /packages/*.deb")
_INSTALLED = (
    ("every program starts, and has a page and completions", " && ".join(
        f"{name} --version && man --path {name} && test -s /usr/share/bash-completion/completions/{name}"
        f" && test -s /usr/share/zsh/vendor-completions/_{name} && test -s /usr/share/fish/vendor_completions.d/{name}.fish"
        for name in PROGRAMS
    )),
    ("lr2ctl --help, and pages of its commands", "lr2ctl --help && man --path lr2ctl-flows && man --path lr2-gateway-doctor && man --path lr2-gateway-release-links"),
    ("man shows what the program says", "MANPAGER=cat man --warnings -E UTF-8 lr2-gateway | tr -s '[:space:]' ' ' >/tmp/page && "
        "for word in --elsewhere SIGHUP 'Exit status'; do grep -q -- \"$word\" /tmp/page; done"),
    ("the configuration passes --check, from which it opens its ports", "mkdir -p /run/lr2 /var/lib/lr2 && "
        "lr2-gateway --config /etc/lr2/gateway.toml --check >/tmp/out && cat /tmp/out && grep -q '^# port wan: net_null1' /tmp/out"),
    ("the key is nobody else's", 'test "$(stat -c %a:%U /etc/lr2/key)" = 600:root && test "$(wc -c </etc/lr2/key)" = 64'),
    ("bind-nics, dry", "lr2-bind-nics --help | grep -q 'lr2-bind-nics bind'"),
    ("a link of lr2-wan without hardware", "timeout --preserve-status --signal=INT 3 lr2-wan --a net_null0 --b net_null1 --delay 1ms --rate 10Mbps --huge never; "
        'test -z "$(ls /run/dpdk 2>/dev/null)"'),
    ("lr2-check-rnic without hardware", "timeout --preserve-status --signal=INT 3 lr2-check-rnic --a net_null0,no-rx=1 --b net_null1,no-rx=1 --huge never --markdown /tmp/rnic.md; "
        "grep -q 'not tried' /tmp/rnic.md"),
    ("lr2-sim plans", "lr2-sim plan --rate 10Gbps --rtt 10ms --loss 1e-3 >/dev/null"),
    ("a simulation of a packaged scenario", "lr2-sim run /usr/share/doc/lr2-sim/examples/minimal.toml >/dev/null"),
    ("licences, bill of materials and examples", " && ".join(
        f"test -s /usr/share/doc/{name}/copyright && zgrep -q '^clap ' /usr/share/doc/{name}/THIRD-PARTY-LICENSES.gz"
        f" && grep -q CycloneDX /usr/share/doc/{name}/sbom.cdx.json" for name in PACKAGES
    ) + " && test -s /usr/share/lr2-gateway/alerts.yml && test -s /usr/share/doc/lr2-gateway/README.md"
        " && test -s /usr/share/doc/lr2-gateway/examples/60-lr2-hugepages.conf"),
    ("nothing is enabled", "test ! -e /etc/systemd/system/multi-user.target.wants/lr2-gateway.service"),
)
_LEFT = (
    ("an upgrade keeps the operator's files", "echo '# mine' >>/etc/lr2/gateway.toml && sum=$(sha256sum /etc/lr2/*) && "
        'apt-get -qq install -y --reinstall /packages/*.deb && test "$sum" = "$(sha256sum /etc/lr2/*)"'),
    ("removal keeps them", f"apt-get -qq remove -y {' '.join(PACKAGES)} && test -s /etc/lr2/key && grep -q mine /etc/lr2/gateway.toml "
        "&& test ! -e /usr/bin/lr2-gateway"),
    ("purge takes them", f"dpkg --purge {' '.join(PACKAGES)} && test ! -e /etc/lr2 && test ! -e /var/lib/lr2 && "
        "test ! -e /usr/share/doc/lr2-gateway"),
)
# In a mount namespace of its own: what is mounted goes with it. The services of packages don't start.
_ENTER = """set -eu
mount -t proc proc "$1/proc"
mount --rbind -o ro /sys "$1/sys"
mount -t tmpfs tmpfs "$1/dev/shm"
mount -t tmpfs tmpfs "$1/run"
exec chroot "$1" /bin/sh -ec "$2"
"""


def _run(*command: str | Path, limit_s: float = 120) -> None:
    """Its output follows if it fails."""
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_s)
    if ended.returncode:
        raise RuntimeError(f"{command[0]}: exit code {ended.returncode}\n{(ended.stdout + ended.stderr)[-3000:]}")


def _bare() -> None:
    """Make the archive of a bare system, unless there is a fresh one."""
    if _BARE.exists() and time.time() - _BARE.stat().st_mtime < _FRESH_S:
        return
    with tempfile.TemporaryDirectory() as root:
        _run("debootstrap", "--variant=minbase", _CODENAME, root, _MIRROR, limit_s=300)
        _BARE.parent.mkdir(parents=True, exist_ok=True)
        fresh = _BARE.with_suffix(f".{os.getpid()}")
        _run("tar", "-C", root, "--one-file-system", "-cpf", fresh, ".")
        fresh.rename(_BARE)


class Chroot:
    """A system of its own below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def complaint(self, what: str, script: str, limit_s: float = 120) -> str:
        """What went wrong; nothing if all is well."""
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root"}
        environment |= {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", _ENTER, "enter", str(self.root), script]
        start = time.monotonic()
        try:
            ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=limit_s)
        except subprocess.TimeoutExpired:
            return f"{what}: not done after {limit_s:.0f} s"
        print(f"{time.monotonic() - start:5.1f} s  {what}", flush=True)
        if not ended.returncode:
            return ""
        return f"{what}: exit code {ended.returncode}\n{(ended.stdout + ended.stderr)[-3000:]}"


def _units(root: Path) -> Iterator[str]:
    """The units that the package brings, judged as files of the chroot."""
    for unit in _UNITS:
        path = root / "lib" / "systemd" / "system" / unit
        told = subprocess.run(["systemd-analyze", "security", "--offline=true", path], capture_output=True, text=True, check=False)
        exposure = _EXPOSURE.search(told.stdout)
        if not exposure or float(exposure[1]) >= _WORST_EXPOSURE:
            yield f"{unit}: systemd-analyze security: {exposure[0] if exposure else told.stderr}"
        instance = path.with_name(unit.replace("@.", "@a."))
        if instance != path:
            shutil.copy(path, instance)
        verified = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", f"--root={root}", f"/lib/systemd/system/{instance.name}"],
            capture_output=True, text=True, check=False,
        )
        if said := (verified.stdout + verified.stderr).strip():
            yield f"{unit}: systemd-analyze verify: {said}"
        if instance != path:
            instance.unlink()


def _complaints(root: Path, run: Path) -> Iterator[str]:
    chroot = Chroot(root)
    (root / "packages").mkdir()
    for package in OUT.glob("*.deb"):
        shutil.copy(package, root / "packages")
    if said := chroot.complaint(*_INSTALL, limit_s=150):
        yield said
        return
    yield from _units(root)
    for what, script in _INSTALLED:
        if said := chroot.complaint(what, script):
            yield said
    yield from booted.complaints(root, run)
    for what, script in _LEFT:
        if said := chroot.complaint(what, script):
            yield said


def main() -> int:
    if sys.argv[1:] == ["--bare"]:
        _bare()
        return 0
    start = time.monotonic()
    _run(sys.executable, "-m", "debs")
    print(f"{time.monotonic() - start:5.1f} s  packages made")
    with tidy_end(_LIMIT_S), RunDir("lr2-packages") as run:
        root = run.path / "root"
        root.mkdir()
        _bare()
        _run("tar", "-C", root, "-xpf", _BARE)
        print(f"{time.monotonic() - start:5.1f} s  and the bare system is there")
        found = list(_complaints(root, run.path))
    for complaint in found:
        print(complaint)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
