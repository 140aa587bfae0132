"""How the programs are started, and when they are ready to be measured."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lr2run import Gateway, Metrics, Process, ProcessFailed, Processes

from .cases import Data, Dut, Traffic

_HEADROOM = 128
_ROCE_HEADERS = 84
"""The headers that the gateway leaves room for beside the payload: IPv6, UDP, BTH, RETH, ImmDt, ICRC."""
_MIB = 1 << 20
_MBUFS = 16384
"""Of programs that hold nothing: rings, caches and bursts."""
_TUNNEL_HEADERS = 34
"""By which a frame grows in a tunnel over Ethernet, with VLAN tags and as a resend."""
_UDP_HEADERS = 74
"""The same over UDP and IPv4."""
_NICE = -20
"""Of the program under test: others may have the processor when it is done."""
_PATIENT = {"t_out": "10s", "give_up": "10s", "peer_timeout": "10s"}
"""Nobody falls silent here, but a virtual machine stands still now and then, and of a million flows each is silent for long."""
_OVS = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"


@dataclass(frozen=True)
class Place:
    """Where things are, and where they run."""

    run: Path
    """Folder of this run. Only root can write to it, or DPDK would load no driver from there."""
    gateway: Path
    cpu: int
    """That polls."""
    other: int
    """For all else."""

    @property
    def driver(self) -> Path:
        return self.run / "librte_net_traffic.so"

    def counters(self, queues: int = 1) -> list[Path]:
        """The files of the port's queues."""
        first = self.run / "counters"
        return [first, *(first.with_suffix(f".{queue}") for queue in range(1, queues))]

    @property
    def prefix(self) -> str:
        return f"lr2-bench-{os.getpid()}"


@dataclass
class Running:
    """A program that forwards."""

    process: Process
    steady: Callable[[dict[str, int]], str | None] = lambda counters: None
    """The condition that it still waits for, given the port's counters; None: it can be measured."""
    complaints: Callable[[], list[str]] = list
    """Problems that it reported since it was steady."""
    metrics: Callable[[], Metrics] = lambda: Metrics({})
    """A gateway's own counters."""


def mtu(traffic: Traffic) -> int:
    """That takes the largest frame there is: data, or a message of connection management."""
    return max(traffic.payload + _ROCE_HEADERS, 576)


def devices(place: Place, dut: Dut, traffic: Traffic) -> list[str]:
    """The LAN port and the WAN ports."""
    # Open vSwitch keeps notes of its own in each mbuf of its pool.
    pool = "program" if dut.name == "ovs" else "own"
    peer = "yes" if (dut.lan == "on" or dut.repaired if dut.is_tunnel else dut.is_gateway and dut.mode != "off") else "no"
    world = (
        f"payload={traffic.payload},flows={traffic.flows},in_flight={traffic.delay},per_ack={traffic.per_ack},"
        f"data={dut.data},peer={peer},pool={pool},counters={place.counters()[0]}"
        + (f",tunnel={'udp' if dut.udp else 'ethernet'},ports={dut.ports},lanes={dut.lanes}" if dut.is_tunnel else "")
        + (f",repaired={dut.repaired}" if dut.repaired else "")
        + (f",loss={traffic.loss}" if traffic.loss else "")
        + (f",queues={dut.queues}" if dut.queues > 1 else "")
        + (f",threads={dut.workers}" if dut.workers > dut.queues else "")
        + (f",pause_us={traffic.pause_us}" if traffic.pause_us else "")
    )
    # To both: Open vSwitch sets up its ports in any order.
    wans = [f"net_traffic{1 + port},side=wan{f',port={port}' if dut.is_tunnel else ''},{world}" for port in range(dut.ports)]
    return [f"net_traffic0,side=lan,{world}", *wans]


def _eal(place: Place, lcores: str, lan: str, wan: str) -> list[str]:
    fixed = ["--in-memory", "--no-pci", "--no-telemetry", "--log-level=warning"]
    return ["-l", lcores, *fixed, "-d", str(place.driver), "--vdev", lan, "--vdev", wan, "--file-prefix", place.prefix]


def _testpmd(place: Place, processes: Processes, dut: Dut, traffic: Traffic) -> Running:
    eal = _eal(place, f"{place.other},{place.cpu}", *devices(place, dut, traffic))
    length = mtu(traffic) + 18
    own = [
        f"--forward-mode={dut.mode}", "--auto-start", "--no-flush-rx", f"--total-num-mbufs={_MBUFS}",
        f"--mbuf-size={length + _HEADROOM}", f"--max-pkt-len={length}", "--stats-period=3600",
    ]  # fmt: skip
    # The main lcore is the first.
    return Running(processes.start(dut.name, ["dpdk-testpmd", *eal, f"--main-lcore={place.other}", "--", *own], nice=_NICE))


def _hold(place: Place, processes: Processes, dut: Dut, traffic: Traffic) -> Running:
    eal = _eal(place, str(place.cpu), *devices(place, dut, traffic))
    program = place.run / "hold"
    return Running(processes.start(dut.name, [program, *eal, "--", str(traffic.in_flight)], nice=_NICE))


def _held(dut: Dut, traffic: Traffic) -> int:
    """Frames that each of a gateway's pools has room for. Its workers get equal parts, and one has all the flows. A tunnel keeps them
    until the next REPORT, which comes a sixteenth of a round trip later, or a little more."""
    return (traffic.most_held + 4096 + (traffic.most_held // 8 if dut.is_tunnel else 0)) * dut.workers


def _gateway(place: Place, processes: Processes, dut: Dut, traffic: Traffic) -> Running:
    lan, wan, *more_wans = devices(place, dut, traffic)
    budget = f"{_held(dut, traffic) * traffic.frame}B"
    reorder = budget if traffic.loss else "64KiB"
    extra = {
        "eal": {"cores": [place.cpu, place.other][: dut.workers], "extra": ["-d", str(place.driver)]},
        # A NIC's rule, or one by which the two hosts of the first 64 flows are the second worker's.
        "worker": {
            "idle": dut.idle, "max_flows": max(4096, 4 * traffic.flows * dut.queues), "count": dut.workers,
            "spread": "rss" if dut.queues > 1 else "mixed",
        },
        "pool": {"mbufs": _gateway_mbufs(dut, traffic)},
        "recovery": {"mode": dut.mode, "resend_cache": budget, "backup_pool": budget, "reorder_pool": reorder} | _PATIENT,
    }
    if not dut.records:
        extra["control"] = {"records": 0}
    if dut.is_tunnel:
        extra["wan"] = {"tunnel": "udp" if dut.udp else "ethernet"} | _wan(dut, traffic, 0)
        if dut.udp:
            extra["wan"]["lanes"] = dut.lanes
        extra["recovery"] |= {"mode": "off", "lan": dut.lan}
    gateway = Gateway.start(
        processes, place.gateway, place.run, dut.name, lan=lan, wan=wan, role="both" if dut.is_tunnel else dut.name, recovery=dut.mode,
        file_prefix=place.prefix, mtu=mtu(traffic), huge_pages="require", memory=f"{memory(dut, traffic) // _MIB}MiB", extra=extra,
        more_wans=[{"device": device} | _wan(dut, traffic, port) for port, device in enumerate(more_wans, 1)],
    )  # fmt: skip
    os.setpriority(os.PRIO_PROCESS, gateway.process.pid, _NICE)
    watch = (_TunnelWatch if dut.is_tunnel else _Watch)(gateway, dut, traffic)
    return Running(gateway.process, watch.steady, watch.complaints, gateway.metrics)


def _wan(dut: Dut, traffic: Traffic, port: int) -> dict[str, str | int]:
    """The keys of a WAN port of a tunnel; its other end is the port's own (traffic-port/outer.c)."""
    if not dut.udp:
        return {"mtu": mtu(traffic) + _TUNNEL_HEADERS}
    link = f"192.0.{2 + port}"
    return {"mtu": mtu(traffic) + _UDP_HEADERS, "address": f"{link}.1/30", "peer": f"{link}.2"}


class _Watch:
    """Figures from a gateway's own counters."""

    _STATES = {"sentry": ("protected",), "depot": ("synced",), "both": ("protected", "synced")}
    _NEVER: tuple[tuple[str, dict[str, str]], ...] = (
        ("lr2_flow_events_total", {"event": "new_epoch"}),
        ("lr2_flow_events_total", {"event": "peer_lost"}),
        ("lr2_flow_events_total", {"event": "bypassed"}),
        ("lr2_flow_events_total", {"event": "reset"}),
        ("lr2_port_egress_dropped_frames_total", {}),
        ("lr2_sentry_cache_full_total", {}),
        ("lr2_depot_backup_full_total", {}),
        ("lr2_depot_gaps_total", {"event": "given_up"}),
        ("lr2_depot_local_resent_total", {}),
        ("lr2_alloc_failures_total", {}),
        ("lr2_port_handoff_dropped_frames_total", {}),
        ("lr2_dropped_frames_total", {"reason": "reorder_pool_full"}),
    )
    _NEVER_WITHOUT_LOSS: tuple[tuple[str, dict[str, str]], ...] = (
        ("lr2_depot_gaps_total", {}),
        ("lr2_naks_total", {}),
    )

    def __init__(self, gateway: Gateway, dut: Dut, traffic: Traffic) -> None:
        self._gateway = gateway
        self._dut = dut
        self._traffic = traffic
        self._before: dict[str, float] = {}

    def _bad(self) -> dict[str, float]:
        metrics = self._gateway.metrics()
        never = self._NEVER if self._traffic.loss else self._NEVER + self._NEVER_WITHOUT_LOSS
        bad = {_named(name, labels): metrics.total(name, **labels) for name, labels in never}
        for (name, labels), value in metrics.samples.items():
            if name == "lr2_dropped_frames_total" and any(v.startswith("control_") for _, v in labels):
                bad[_named(name, dict(labels))] = value
        # Frames of a lane that was taken for silent: none was lost.
        resent = _named("lr2_tunnel_sent_frames_total", {"copy": "resent"})
        if self._dut.may_move and resent in bad:
            bad[resent] -= metrics.total("lr2_tunnel_moved_frames_total")
        return bad

    def _waits_for(self, metrics: Metrics) -> str | None:
        """Whether all flows are protected."""
        # Only data makes a gateway announce a flow.
        if self._dut.mode == "off" or self._traffic.pause_us:
            return None
        both = self._dut.data == Data.BOTH and self._traffic.flows > 1
        wanted = self._traffic.flows // 2 if both else self._traffic.flows
        for state in self._STATES[self._dut.place]:
            flows = metrics.total("lr2_flows", state=state)
            if flows < wanted:
                return f"{flows:.0f} of {wanted} flows {state}"
        return None

    def steady(self, _counters: dict[str, int]) -> str | None:
        """Why the gateway is not ready to be measured; None: it is."""
        if waits_for := self._waits_for(self._gateway.metrics()):
            return waits_for
        self._before = self._bad()
        return None

    def complaints(self) -> list[str]:
        now = self._bad()
        return [f"{name} grew by {now[name] - self._before.get(name, 0):.0f}" for name in now if now[name] > self._before.get(name, 0)]


class _TunnelWatch(_Watch):
    """The same of a gateway with a tunnel: all frames are numbered, kept, and delivered in order."""

    _NEVER = (
        ("lr2_port_egress_dropped_frames_total", {}),
        ("lr2_alloc_failures_total", {}),
        ("lr2_tunnel_dropped_frames_total", {}),
        ("lr2_tunnel_refused_messages_total", {}),
        ("lr2_tunnel_session_changes_total", {}),
        ("lr2_tunnel_plain_frames_total", {}),
        ("lr2_tunnel_unsequenced_frames_total", {}),
        ("lr2_tunnel_not_kept_frames_total", {}),
        ("lr2_tunnel_skipped_frames_total", {}),
        ("lr2_tunnel_given_up_numbers_total", {"reason": "timeout"}),
        ("lr2_tunnel_delivered_frames_total", {"order": "late"}),
        ("lr2_tunnel_delivered_frames_total", {"order": "given_up"}),
        # Each tunnel comes to its worker.
        ("lr2_port_handoff_frames_total", {}),
    )
    _NEVER_WITHOUT_LOSS = (
        ("lr2_tunnel_lost_frames_total", {}),
        ("lr2_tunnel_sent_frames_total", {"copy": "resent"}),
        ("lr2_tunnel_missing_numbers_total", {}),
        ("lr2_tunnel_waited_frames_total", {}),
    )

    def _waits_for(self, metrics: Metrics) -> str | None:
        if not metrics.total("lr2_tunnel_up"):
            return "there is no session"
        pairs = metrics.total("lr2_tunnel_lan_repair_host_pairs")
        if pairs != self._dut.repaired:
            return f"{pairs:.0f} of {self._dut.repaired} pairs of hosts are repaired"
        return super()._waits_for(metrics) if self._dut.lan == "on" else None


def _named(name: str, labels: dict[str, str]) -> str:
    return name + "".join(f" {value}" for value in labels.values())


def memory(dut: Dut, traffic: Traffic) -> int:
    """Bytes of hugepages that it takes."""
    mbuf = mtu(traffic) + 512
    own = 160 * _MIB
    match dut.name:
        case "testpmd":
            return own + _MBUFS * mbuf
        case "hold":
            return own + (_MBUFS + traffic.in_flight) * (4352 + 512)
        case "ovs":
            # It asks for many mbufs and is content with fewer.
            return 1024 * _MIB
    return own + _gateway_mbufs(dut, traffic) * mbuf


def _gateway_mbufs(dut: Dut, traffic: Traffic) -> int:
    # A Sentry has the resend cache, a Depot the backup pool. The reordering pool,
    # where nothing is out of order, gets the smaller share that its bytes are.
    # A tunnel keeps a copy of every frame that it sends, of ACKs too.
    # One that repairs LANs has a backup pool besides.
    pools = 0 if dut.mode == "off" else 3 if dut.lan != "off" else 2 if dut.name == "both" or dut.is_tunnel else 1
    if traffic.loss and dut.name != "sentry":
        pools += 1
    return _MBUFS * (dut.workers + dut.ports - 1) + _held(dut, traffic) * pools * 9 // 8


def missing(duts: set[Dut]) -> dict[str, str]:
    """Missing programs, by the name of the measurement that needs them, and the remedy."""
    lacks = {}
    names = {dut.name for dut in duts}
    if "testpmd" in names and not shutil.which("dpdk-testpmd"):
        lacks["testpmd"] = "there is no dpdk-testpmd: apt-get install dpdk"
    if "ovs" in names and not Path(_OVS).exists():
        lacks["ovs"] = "there is no Open vSwitch with DPDK: apt-get install openvswitch-switch-dpdk"
    return lacks


def prefer(pid: int) -> None:
    """Where the kernel shares the processor among sessions first, a process's own priority counts within its session only."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(_NICE))


@contextlib.contextmanager
def running(place: Place, dut: Dut, traffic: Traffic) -> Iterator[Running]:
    """The program, forwarding or about to; stopped at the end."""
    for file in place.run.glob("counters*"):
        file.unlink()
    starts = {"testpmd": _testpmd, "hold": _hold, "ovs": _ovs}
    with Processes(place.run) as processes:
        program = starts.get(dut.name, _gateway)(place, processes, dut, traffic)
        # With a worker on each CPU, we need some of one as well: where figures are not of the time that a thread
        # ran only, others may have it too.
        if dut.workers == dut.queues:
            prefer(program.process.pid)
        yield program


def _ovs(place: Place, processes: Processes, dut: Dut, traffic: Traffic) -> Running:
    """Open vSwitch with a database and sockets of its own, one bridge, one rule each way."""
    folder = place.run / "ovs"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    socket = f"unix:{folder}/db.sock"
    places = {name: str(folder) for name in ("OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR")}
    # env(1) becomes the program, with the same pid.
    within = ["env", *(f"{name}={value}" for name, value in places.items())]

    def tool(*words: str) -> None:
        # The tools have a limit of their own.
        done = subprocess.run([*within, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise ProcessFailed(f"ovs: {' '.join(words)}: {done.stderr.strip()}")

    tool("ovsdb-tool", "create", f"{folder}/conf.db", "/usr/share/openvswitch/vswitch.ovsschema")
    server = processes.start("ovsdb", [*within, "ovsdb-server", f"{folder}/conf.db", f"--remote=p{socket}", f"--unixctl={folder}/db.ctl"])
    server.check()
    vsctl = ("ovs-vsctl", f"--db={socket}", "--retry", "--timeout=20")
    extra = f"--in-memory --no-pci --no-telemetry -d {place.driver} --file-prefix {place.prefix}"
    tool(
        *vsctl, "--no-wait", "init", "--", "set", "Open_vSwitch", ".", "other_config:dpdk-init=true",
        f"other_config:dpdk-lcore-mask={1 << place.other:#x}", f"other_config:pmd-cpu-mask={1 << place.cpu:#x}",
        f"other_config:dpdk-socket-mem={memory(dut, traffic) // _MIB // 2}", f"other_config:dpdk-extra={extra}",
    )  # fmt: skip
    process = processes.start("ovs", [*within, _OVS, socket, f"--pidfile={folder}/ovs.pid", f"--unixctl={folder}/ovs.ctl"], nice=_NICE)
    lan, wan = devices(place, dut, traffic)
    ports: list[str] = []
    for name, device in (("lan", lan), ("wan", wan)):
        quoted = f'options:dpdk-devargs="{device}"'
        ports += ["--", "add-port", "br", name, "--", "set", "Interface", name, "type=dpdk", f"mtu_request={mtu(traffic)}"]
        ports += [quoted, f"ofport_request={1 if name == 'lan' else 2}"]
    tool(*vsctl, "add-br", "br", "--", "set", "bridge", "br", "datapath_type=netdev", "fail_mode=secure", *ports)
    for rule in ("in_port=1,actions=output:2", "in_port=2,actions=output:1"):
        tool("ovs-ofctl", "--timeout=20", "add-flow", f"unix:{folder}/br.mgmt", rule)
    return Running(process)
