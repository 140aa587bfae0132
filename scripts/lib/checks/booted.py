"""The units of the packages under a systemd that runs, for checks.packages.

The system that debootstrap made is booted as a container: in namespaces and a control group of its own, up to basic.target. So nothing of this
machine is seen, and all of it ends with its first process.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from lr2run import ProcessFailed, Processes, TimedOut, wait_until

_START_S = 30
_LIMIT_S = 60
# It leaves the old root by pivot_root: systemd mounts for its services, and can't in a chroot.
_BOOT = """set -eu
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount -t sysfs -o ro sysfs "$1/sys"
mount -t cgroup2 cgroup2 "$1/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$1/dev"
for device in null zero full random urandom tty; do cp -a "/dev/$device" "$1/dev/"; done
mkdir "$1/dev/shm"
mount -t tmpfs tmpfs "$1/dev/shm"
mount -t tmpfs -o mode=755 tmpfs "$1/run"
mkdir "$1/run/old"
cd "$1"
pivot_root . run/old
umount -l run/old
exec env -i container=lr2 PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=basic.target --show-status=false
"""
_NAMESPACES = ("--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup")
# For the scripts below.
_WORDS = """
soon() { n=0; until why=$("$@"); do n=$((n + 1)); test $n -lt 200 || { echo "not within 20 s: $*; $why"; return 1; }; sleep 0.1; done; }
is() { value=$(systemctl show --property="$2" --value "$1"); test "$value" = "$3" || { echo "$1: $2 is $value, not $3"; return 1; }; }
said() { journalctl --no-pager --output=cat --unit="$1" | grep -qe "$2"; }
well() { lr2ctl --socket "$1" status | grep -q ': ok$'; }
a=lr2-gateway@a b=lr2-gateway@b
"""
_FAILED = "journalctl --no-pager --output=cat --unit='lr2-gateway*' | tail -n 20"
# Little memory, as a busy machine takes seconds to allocate and free more. [recovery] is the last section: a step appends a key of it.
_SMALL = r'[eal]\nhuge_pages = "never"\nmemory = "192MiB"\n[recovery]\nresend_cache = "8MiB"\nreorder_pool = "8MiB"\nbackup_pool = "8MiB"\n'
_STEPS = (
    ("it is booted", "soon systemctl --quiet is-active basic.target"),
    # The packaged configuration. systemctl start returns when the gateway forwards, so lr2ctl is called at once.
    ("an instance starts, and forwards then", f"sed 's|/run/lr2-gateway/|/run/lr2-gateway-a/|' /etc/lr2/gateway.toml >/etc/lr2/a.toml && printf '{_SMALL}' >>/etc/lr2/a.toml && "
        "systemctl start $a && is $a SubState running && lr2ctl status | grep -q ': ok$' && lr2ctl ports | grep -q net_null1 && said $a 'INFO forwarding: '"),
    ("its ports lead nowhere", r"lr2ctl ports | grep -Ecx '(lan|wan) +up +9000( +0){7} +net_null.*' | grep -qx 2"),
    ("a reload", "pid=$(systemctl show --property=MainPID --value $a) && echo 'rtt_guess = \"20ms\"' >>/etc/lr2/a.toml && systemctl reload $a && "
        "soon said $a 'reloaded: recovery.rtt_guess' && is $a MainPID $pid"),
    ("a reload of a wrong file", "cp /etc/lr2/a.toml /tmp && echo 'nonsense = 1' >>/etc/lr2/a.toml && systemctl reload $a && "
        "soon said $a 'a.toml:.*nonsense: found an unknown key' && well /run/lr2-gateway-a/control.sock && mv /tmp/a.toml /etc/lr2"),
    ("a wrong configuration", "printf 'nonsense = 1\\n' >/etc/lr2/b.toml && ! systemctl start $b 2>/dev/null && is $b ActiveState failed && is $b ExecMainStatus 2 && "
        "said $b 'b.toml:1:1: nonsense: found an unknown key'"),
    ("the watchdog restarts a gateway that stands still", "systemctl kill --kill-whom=main --signal=STOP $a && soon is $a NRestarts 1 && soon is $a SubState running && "
        "said $a 'Watchdog timeout' && well /run/lr2-gateway-a/control.sock"),
    # Longer than RestartSec=1s after it failed.
    ("the wrong configuration was not tried again", "is $b ActiveState failed && is $b NRestarts 0"),
    ("a stop is orderly, and leaves nothing", "systemctl stop $a && is $a Result success && is $a ExecMainStatus 0 && said $a 'INFO stopped$' && test ! -e /run/lr2-gateway-a && "
        "rm /etc/lr2/[ab].toml"),
    ("the unit for a single gateway", "systemctl start lr2-gateway && well /run/lr2-gateway/control.sock && systemctl stop lr2-gateway"),
)


def _cgroups() -> Path:
    """Where the control groups of version 2 are mounted."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split(" ")
        if kind == "cgroup2":
            return Path(place)
    raise RuntimeError("no cgroup2 is mounted, which systemd needs")


class Booted:
    """A system that runs, until the block is left."""

    def __init__(self, root: Path, run: Path) -> None:
        self._root, self._processes = root, Processes(run)
        self._group = _cgroups() / f"lr2-booted-{os.getpid()}"

    def __enter__(self) -> "Booted":
        self._group.mkdir()
        enter = 'echo 0 >"$1/cgroup.procs"; shift; exec "$@"'
        boot = ["unshare", *_NAMESPACES, "--fork", "--kill-child", "sh", "-c", _BOOT, "boot", self._root]
        # unshare heeds no SIGTERM, which our processes get when this script is killed.
        command = ["sh", "-ec", enter, "enter", self._group, "setpriv", "--pdeathsig=KILL", *boot]
        self._unshare = self._processes.start("systemd", command)
        return self

    def __exit__(self, *_: object) -> None:
        # The first process takes all others along, and unshare, whose child it is, ends with it.
        if first := self._first():
            os.kill(int(first), signal.SIGKILL)
        else:
            self._unshare.send_signal(signal.SIGKILL)
        self._unshare.wait(_START_S)
        wait_until(self._remove_group, _START_S, f"the end of {self._group}")

    def _remove_group(self) -> bool:
        """All of it: systemd made some inside."""
        try:
            for folder in sorted((path for path in self._group.rglob("*") if path.is_dir()), reverse=True):
                folder.rmdir()
            self._group.rmdir()
        except OSError:
            return False
        return True

    def _first(self) -> str:
        """The process that is systemd there, once there is one."""
        if not self._unshare.alive:
            return ""
        try:
            children = Path(f"/proc/{self._unshare.pid}/task/{self._unshare.pid}/children").read_text().split()
            return children[0] if children and Path(f"/proc/{children[0]}/comm").read_text() == "systemd\n" else ""
        except OSError:
            # It has just ended.
            return ""

    def complaint(self, what: str, script: str) -> str:
        """What went wrong; nothing if all is well."""
        start = time.monotonic()
        try:
            first = wait_until(lambda: self._first() or self._unshare.check(), _START_S, "systemd")
            inside = ["nsenter", f"--target={first}", *_NAMESPACES, "--root", "--wd"]
            script = f"{_WORDS}\nif {script}; then exit 0; fi\n{_FAILED}; exit 1"
            command = [*inside, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "sh", "-c", script]
            ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
        except (TimedOut, ProcessFailed, subprocess.TimeoutExpired) as error:
            return f"systemd: {what}: {error}\n{self._unshare.tail()}"
        print(f"{time.monotonic() - start:5.1f} s  systemd: {what}", flush=True)
        return f"systemd: {what}\n{ended.stdout}{ended.stderr}" if ended.returncode else ""


def complaints(root: Path, run: Path) -> Iterator[str]:
    """Boot the system below `root`, run its units, and yield what fails. The log of systemd is written to the folder `run`."""
    with Booted(root, run) as system:
        for what, script in _STEPS:
            if said := system.complaint(what, script):
                yield said
                return
