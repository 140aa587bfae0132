"""Network namespaces joined by veth: the hosts, their routers, and the boxes.

    hosts-a -- router-a ==pair1== a1 -- wan -- b1 ==pair1== router-b -- hosts-b
                        ==pair2== a2 -- wan -- b2 ==pair2==
"""

import json
from collections.abc import Sequence
from pathlib import Path

from lr2run import Namespace, Process, Processes, cable, wait_until

SITES = "ab"
PAIRS = (1, 2)
HOST_IP = {"a": "10.77.1.10", "b": "10.77.2.10"}
HOST_MAC = {"a": "02:00:0a:4d:01:0a", "b": "02:00:0a:4d:02:0a"}
ROUTER_MAC = {"a": "02:00:0a:4d:01:01", "b": "02:00:0a:4d:02:01"}
HOST_INTERFACE = "roce"
LAN_INTERFACE = "lan"

# ECMP by addresses and ports: queue pairs differ in their source ports.
_ROUTER_SYSCTL = ("net.ipv4.ip_forward=1", "net.ipv4.fib_multipath_hash_policy=1", "net.ipv4.conf.all.ignore_routes_with_linkdown=1")


class Network:
    """The namespaces of both sites, with their interfaces."""

    def __init__(self, processes: Processes) -> None:
        self.hosts = {site: Namespace(processes, f"hosts-{site}") for site in SITES}
        self.routers = {site: Namespace(processes, f"router-{site}") for site in SITES}
        # Each its own: net_af_packet's fanout groups, whose numbers come from process ids, may collide within one.
        self.boxes = {(site, pair): Namespace(processes, f"box-{site}{pair}") for site in SITES for pair in PAIRS}
        for site in SITES:
            router = self.routers[site]
            cable("one", "other")
            self.hosts[site].take("one", HOST_INTERFACE)
            router.take("other", "hosts")
            router.run("ip", "link", "set", "hosts", "address", ROUTER_MAC[site])
            for pair in PAIRS:
                cable("one", "other")
                router.take("one", f"pair{pair}")
                # The kernel leaves checksums to veth, which never writes them: a packet socket would see them unwritten.
                router.run("ethtool", "--offload", f"pair{pair}", "tx", "off")
                self.boxes[site, pair].take("other", LAN_INTERFACE)
            for setting in _ROUTER_SYSCTL:
                router.run("sysctl", "-qw", setting)

    def know_hosts(self) -> None:
        """lr2-host answers no ARP. To be called when the routers have their addresses."""
        for site in SITES:
            self.routers[site].run("ip", "neigh", "replace", HOST_IP[site], "lladdr", HOST_MAC[site], "dev", "hosts")


class Router:
    """FRR in a router's namespace."""

    def __init__(self, processes: Processes, namespace: Namespace, packages: Path, config: Path, run: Path) -> None:
        self._namespace = namespace
        self._packages = packages
        self._sockets = run / namespace.name
        self._sockets.mkdir()
        # FRR is unpacked, not installed: its user has to be in this group.
        self._groups = self._sockets / "group"
        self._groups.write_text(Path("/etc/group").read_text() + "frrvty:x:64999:root\n")
        self._processes = [self._start(processes, daemon) for daemon in ("zebra", "bfdd", "ospfd")]
        self._vtysh("-f", str(config))

    def _start(self, processes: Processes, daemon: str) -> Process:
        folder = self._sockets
        words = [
            *self._program(f"lib/frr/{daemon}"),
            *("-u", "root", "-g", "root", "-P", "0", "--log", "stdout"),
            *("-i", folder / f"{daemon}.pid", "-z", folder / "zserv.api", "--vty_socket", folder),
            *(["--bfdctl", folder / "bfdd.sock"] if daemon == "bfdd" else []),
        ]
        process = processes.start(f"{self._namespace.name}-{daemon}", self._namespace.words(*words))
        wait_until(lambda: process.check() or (folder / f"{daemon}.vty").exists(), 20, f"{process.name}: start")
        return process

    def _program(self, name: str) -> Sequence[str | Path]:
        """A program of the package, which sees the files in /etc that its installation would have made."""
        packages = self._packages
        libraries = packages / "usr/lib/x86_64-linux-gnu"
        mounts = 'mount --bind "$0" /etc/group && mount --bind "$1" /etc/pam.d && shift && exec "$@"'
        inside = ["unshare", "--mount", "sh", "-c", mounts, self._groups, packages / "etc/pam.d"]
        return [*inside, "env", f"LD_LIBRARY_PATH={libraries}:{libraries / 'frr'}", packages / "usr" / name]

    def _vtysh(self, *words: str) -> str:
        empty = self._sockets / "vtysh.conf"
        empty.touch()
        program = self._program("bin/vtysh")
        return self._namespace.run(*program, "--vty_socket", self._sockets, "--config_dir", self._sockets, *words)

    def check(self) -> None:
        for process in self._processes:
            process.check()

    @property
    def processes(self) -> list[Process]:
        return self._processes

    def cost(self, pair: int, cost: int | None) -> None:
        """Makes a path dear, so that no flow takes it, or as cheap as the other again."""
        what = f"ip ospf cost {cost}" if cost else "no ip ospf cost"
        self._vtysh("-c", "configure terminal", "-c", f"interface pair{pair}", "-c", what)

    def paths_to(self, address: str) -> set[int]:
        """The pairs over which the kernel forwards to this address."""
        routes = self._namespace.run("ip", "route", "show", "to", "match", address).splitlines()
        return {pair for pair in PAIRS for line in routes if f"dev pair{pair} " in f"{line} " and "dead" not in line}

    def watched_paths(self) -> set[int]:
        """The pairs over which BFD hears the other router."""
        peers = json.loads(self._vtysh("-c", "show bfd peers json"))
        return {pair for pair in PAIRS for peer in peers if peer["interface"] == f"pair{pair}" and peer["status"] == "up"}
