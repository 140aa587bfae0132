"""Network namespaces, and cables of veth in them and between them."""

import ctypes
import json
import os
import subprocess
from pathlib import Path

from .process import Processes
from .waiting import wait_until

_CLONE_NEWNET = 0x4000_0000
_libc = ctypes.CDLL(None, use_errno=True)
# The kernel's neighbour discovery would be one more flow. Not every kernel has IPv6.
NO_IPV6 = ("sysctl", "-qew", "net.ipv6.conf.default.disable_ipv6=1")


def leave_network() -> None:
    """Moves this process into a new network namespace, which the processes that it starts inherit.

    The kernel removes it, with its interfaces, when the last of them has ended, however that was.
    """
    if _libc.unshare(_CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, f"no network namespace: {os.strerror(number)}")
    ip("link", "set", "lo", "up")
    subprocess.run(NO_IPV6, check=True)


def ip(*words: str) -> None:
    """Runs `ip` in the namespace of this process."""
    subprocess.run(["ip", *words], check=True)


def cable(one: str, other: str, numbers: tuple[int, int] | None = None) -> None:
    """Makes a pair of veth interfaces; `numbers` are their interface indices, which the kernel chooses otherwise."""
    first, second = (("index", str(number)) for number in numbers) if numbers else ((), ())
    ip("link", "add", "name", one, *first, "type", "veth", "peer", "name", other, *second)


def has_carrier(interface: str) -> bool:
    """By `ip`: `/sys` is that of another namespace."""
    ended = subprocess.run(["ip", "-json", "link", "show", "dev", interface], capture_output=True, text=True, check=True)
    return {"UP", "LOWER_UP"} <= set(json.loads(ended.stdout)[0]["flags"])


def packet_socket(number: int, interface: str, frame_bytes: int = 2048) -> str:
    """A port on an interface of the kernel, for `lr2-gateway`, `lr2-wan` and `lr2-host`; `frame_bytes` is a power of two."""
    return f"net_af_packet{number},iface={interface},blocksz={max(4096, frame_bytes)},framesz={frame_bytes}"


class Namespace:
    """A network namespace, which ends with the process that holds it."""

    def __init__(self, processes: Processes, name: str) -> None:
        self.name = name
        self._holder = processes.start(f"namespace-{name}", ["unshare", "--net", "sleep", "infinity"])
        # unshare becomes sleep once the namespace is there.
        comm = Path(f"/proc/{self._holder.pid}/comm")
        wait_until(lambda: comm.read_text().strip() == "sleep", 10, f"the namespace {name}", every_s=0.01)
        self.run("ip", "link", "set", "lo", "up")
        self.run(*NO_IPV6)

    def words(self, *command: str | Path) -> list[str | Path]:
        """A command as one that runs in it."""
        return ["nsenter", f"--target={self._holder.pid}", "--net", *command]

    def run(self, *command: str | Path) -> str:
        """Runs a command in the namespace, and returns its standard output."""
        return subprocess.run(self.words(*command), check=True, capture_output=True, text=True).stdout

    def take(self, interface: str, name: str) -> None:
        """Moves an interface of the caller's namespace into it, by this name, and sets it up."""
        ip("link", "set", interface, "netns", str(self._holder.pid), "name", name)
        self.run("ip", "link", "set", name, "up")
