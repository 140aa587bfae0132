"""Programs that run between the guests; each raises `Failed` unless it completed, and intact.

Completion and content: two guests without hardware virtualisation on the cores of
the gateways make rates and times meaningless by themselves. A time counts only beside
that of the same test with recovery off, on the same machine a moment later. It is the time of
the RDMA transfer, as the programs print it: before that they connect over TCP, where a lost SYN
costs a second with recovery and without.
"""

import concurrent.futures
import re
from collections.abc import Callable
from dataclasses import dataclass

from .bench import Bench, Failed, Pair
from .guest import Guest
from .sniff import frames, sniffing

Test = Callable[[Bench], str]
"""Raises `Failed`, or describes its run in a few words."""


@dataclass(frozen=True)
class Case:
    """A test, and the counters that it requires."""

    name: str
    run: Test
    rdma: bool = True
    repaired_inside: bool = False
    """The gateways must have repaired losses of it: SEND and WRITE traffic, and enough of it."""
    reads: bool = False
    """The gateways must have repaired losses among its READ responses: enough of them."""
    timed: bool = False
    """With recovery it may not take a fifth longer than without, in the same scene."""
    overloads: bool = False
    """More packets are in flight at a time than an emulated guest takes in time: its ring loses some."""
    restarts: bool = False
    """Gateways or queue pairs begin anew in the middle."""
    only_long: bool = False
    """Left out with --short: other scenes have the test in this mode, or at this loss."""


def listens_tcp(port: int) -> str:
    return f"netstat -ltn | grep -q ':{port} '"


# rdma_cm's listeners are no sockets.
LISTENS_CM = "rdma resource show cm_id | grep -q LISTEN"


def _ping(bench: Bench) -> str:
    """ARP and ICMP, large and small; sent and received bytes are compared."""
    a, b = bench.guests
    with sniffing(bench.guests, "arp or icmp"):
        bench.ask(a, "ip neigh flush dev data0")
        with concurrent.futures.ThreadPoolExecutor(len(_SIZES)) as pool:
            answered = sum(pool.map(lambda size: _answered(a, b, size), _SIZES))
        neighbour = bench.ask(a, f"ip neigh show {b.ip} dev data0")
    if b.mac not in neighbour:
        raise Failed(f"ARP: {b.ip} should be at {b.mac}: {neighbour}")
    compared = _compare(a, b) + _compare(b, a)
    if compared < answered:
        raise Failed(f"only {compared} frames captured of {answered} answered pings")
    return f"{answered} of {len(_SIZES) * _PINGS} answered, {compared} frames arrived as sent"


_PINGS = 20
"""Of each size."""
_SIZES = (56, 1472, 8000)


def _answered(a: Guest, b: Guest, size: int) -> int:
    output = a.run(f"ping -i 0.1 -W 3 -s {size} -c {_PINGS} {b.ip}", 40).output
    match = re.search(r"(\d+) packets received", output)
    # The link may lose some; of twenty, half are not lost by chance.
    if not match or int(match[1]) < _PINGS / 2:
        raise Failed(f"ping with {size} bytes: {output}")
    return int(match[1])


def _compare(sender: Guest, receiver: Guest) -> int:
    """How many frames of `sender` arrived; each must be one that it sent."""
    mac = bytes.fromhex(sender.mac.replace(":", ""))
    sent = {frame for frame in frames(sender) if frame[6:12] == mac}
    arrived = [frame for frame in frames(receiver) if frame[6:12] == mac]
    # The captures don't begin and end at the same time.
    known = [at for at, frame in enumerate(arrived) if frame in sent]
    arrived = arrived[known[0] : known[-1] + 1] if known else []
    if changed := [frame for frame in arrived if frame not in sent]:
        raise Failed(f"{len(changed)} frames from {sender.name} arrived changed; one is {changed[0].hex()}")
    return len(arrived)


def tcp(most_resent: int | None = None) -> Test:
    """A file over HTTP, compared by its checksum; the server's TCP may resend at most so many of its 240 segments."""
    return lambda bench: _tcp(bench, most_resent)


def _tcp(bench: Bench, most_resent: int | None) -> str:
    wanted = bench.ask(
        bench.server,
        "mkdir -p /tmp/www && cd /tmp/www && dd if=/dev/urandom of=file bs=64k count=32 2>/dev/null && "
        "sha256sum <file",
    )
    before = _segments_resent(bench.server)
    pair = bench.pair(
        "httpd -f -p 8080 -h /tmp/www",
        f"wget -q -O /tmp/got http://{bench.server.ip}:8080/file && sha256sum </tmp/got; rm -f /tmp/got",
        listens_tcp(8080),
        serves_on=True,
    )
    if pair.client.output != wanted:
        raise Failed(f"content: sent {wanted}, got {pair.client.output}")
    resent = _segments_resent(bench.server) - before
    if most_resent is not None and resent > most_resent:
        raise Failed(f"{resent} segments were resent, {most_resent} at most: TCP saw losses")
    return f"2 MiB, checksum equal, {resent} segments resent, {pair.seconds:.1f} s"


def _segments_resent(guest: Guest) -> int:
    """TCP's count since the guest's start."""
    names, values = [line.split() for line in guest.run("grep ^Tcp: /proc/net/snmp", 10).output.splitlines()]
    return int(values[names.index("RetransSegs")])


def perftest_pair(bench: Bench, verb: str, iterations: int, size: int, qps: int = 1, more: str = "", mtu: int = 4096) -> Pair:
    """Run `ib_<verb>_bw` to its end; `Failed` unless every iteration of every queue pair completed."""
    # -u 18: 1.07 s until a sender gives an answer up; the usual 67 ms go by
    # while an emulated guest does something else. -F: no check of the CPU's clock.
    # --atomic has a size of its own.
    what = "" if verb == "atomic" else f"-s {size}"
    command = f"ib_{verb}_bw -d rxe0 -F -u 18 -m {mtu} {what} -n {iterations} -q {qps} {more} -x"
    pair = bench.pair(
        f"{command} {bench.gid(bench.server)}",
        f"{command} {bench.gid(bench.client)} {bench.server.ip}",
        listens_tcp(18515),
    )
    _rate(pair, size, iterations * qps)
    return pair


_LEAST_RATE = 0.005
"""perftest writes two decimals."""


def _rate(pair: Pair, size: int, iterations: int) -> float:
    """The average in MiB/s that perftest tells, both ways together; `Failed` unless it tells one of so many iterations."""
    # The table's row: bytes, iterations, peak, average, message rate.
    row = re.search(rf"^\s*{size}\s+{iterations}\s+[\d.]+\s+([\d.]+)", pair.client.output, re.MULTILINE)
    if not row:
        raise Failed(f"no result of {iterations} iterations:\n{pair.client.output}")
    return max(float(row[1]), _LEAST_RATE)


def perftest(verb: str, iterations: int, size: int = 65536, qps: int = 1, more: str = "", mtu: int = 4096) -> Test:
    """Messages of one verb, over one or several queue pairs; `more` are options of perftest."""

    def run(bench: Bench) -> str:
        pair = perftest_pair(bench, verb, iterations, size, qps, more, mtu)
        sent = iterations * qps * size * (2 if "-b" in more.split() else 1)
        seconds = bench.took(sent / 2**20 / _rate(pair, size, iterations * qps))
        over = f" over each of {qps} QPs" if qps > 1 else ""
        return f"{iterations} x {size >> 10} KiB{over}, {seconds:.2f} s"

    return run


def datagrams(count: int) -> Test:
    """UD SENDs in turn, each side's next when the other's has arrived: one that is lost ends it for good."""

    def run(bench: Bench) -> str:
        command = f"ib_send_lat -c UD -d rxe0 -F -s 1024 -n {count} -x"
        pair = bench.pair(
            f"{command} {bench.gid(bench.server)}",
            f"{command} {bench.gid(bench.client)} {bench.server.ip}",
            listens_tcp(18515),
        )
        if not re.search(rf"^\s*1024\s+{count}\s+[\d.]+", pair.client.output, re.MULTILINE):
            raise Failed(f"no result of {count} iterations:\n{pair.client.output}")
        return f"{count} datagrams each way, none lost, {pair.seconds:.1f} s"

    return run


def atomic(operation: str, iterations: int) -> Test:
    """Atomic operations on one word of the server."""

    def run(bench: Bench) -> str:
        pair = perftest_pair(bench, "atomic", iterations, 8, more=f"-A {operation}")
        return f"{iterations} x {operation}, {pair.seconds:.1f} s"

    return run


def atomics_counted(count: int) -> Test:
    """Both atomics as counters, the client checks that each was executed once and in turn."""

    def run(bench: Bench) -> str:
        seconds = 0.0
        for operation in ("add", "swap"):
            client = f"atomic-count {bench.server.ip} {operation} {count}"
            pair = bench.pair("atomic-count", client, LISTENS_CM, serves_on=True)
            counted = f"the word is {count}, the client counted to {count}"
            if f"{count} operations, 0 of them" not in pair.client.output or counted not in pair.server.output:
                raise Failed(f"{operation}: {pair.client.output}\n{pair.server.output}")
            seconds += pair.seconds
        return f"{count} fetch-and-add, {count} compare-and-swap, each executed once and in turn, {seconds:.1f} s"

    return run


def send_checked(count: int, tries: int = 1) -> Test:
    """SEND both ways in turn, the receiver checks every byte.

    A side ends, and its queue pair with it, once it has received all and was told that all it sent has
    arrived. If its own last acknowledgement is then lost on its LAN, where no gateway sees it, nobody is left to
    repeat it, and the other side sends its last message for ever (as in the race of rcopy). With loss on the
    LANs that happens by chance now and then: of `tries` one has to end.
    """
    return lambda bench: _send_checked(bench, 65536, count, tries)


def _send_checked(bench: Bench, size: int, count: int, tries: int) -> str:
    command = f"ibv_rc_pingpong -d rxe0 -c -m 4096 -s {size} -n {count} -r 40 -g"
    for attempt in range(1, tries + 1):
        pair = bench.pair(
            f"{command} {bench.gid(bench.server)}",
            f"{command} {bench.gid(bench.client)} {bench.server.ip}",
            listens_tcp(18515),
            may_fail=True,
        )
        sides = (pair.client, pair.server)
        ended = [side for side in sides if side.ok and f"{count} iters" in side.output]
        if any("invalid data" in side.output for side in sides) or not ended:
            break
        if len(ended) == len(sides):
            again = f", try {attempt}" if attempt > 1 else ""
            seconds = bench.took(_seconds(pair))
            return f"{count} x {size >> 10} KiB each way, bytes checked, {seconds:.2f} s{again}"
    raise Failed(pair.shown())


def write_checked(mebibytes: int) -> Test:
    """A file copied by RDMA WRITE, compared by its checksum."""
    return lambda bench: f"{mebibytes} MiB, checksum equal, {bench.took(_seconds(copy_checked(bench, mebibytes))):.2f} s"


# A server that hears "disconnect" destroys its queue pair, and can be quicker than the acknowledgement:
# Soft-RoCE tells the program first (rxe_resp.c). The client then sends its last message for ever, since
# the seven tries that rcopy asks for are no limit (rxe_comp.c). Its "done" is not flushed before.
_RCOPY_RACE = r"opening\.\.\.transferring\.\.\.closing\.\.\.\s*(Terminated)?"


def copy_checked(bench: Bench, mebibytes: int, meanwhile: Callable[[], None] | None = None) -> Pair:
    """Copy a file by RDMA WRITE and compare its checksum; call `meanwhile` while it is copied."""
    fill = f"dd if=/dev/urandom of=/tmp/file bs=64k count={16 * mebibytes} 2>/dev/null"
    wanted = bench.ask(bench.client, f"{fill} && sha256sum </tmp/file")
    bench.ask(bench.server, "rm -f /tmp/copy")
    pair = bench.pair(
        "rcopy",
        f"rcopy /tmp/file {bench.server.ip}:/tmp/copy",
        LISTENS_CM,
        serves_on=True,
        meanwhile=meanwhile,
        excused=_RCOPY_RACE,
    )
    got = bench.ask(bench.server, "sha256sum </tmp/copy")
    if got != wanted:
        raise Failed(f"content: sent {wanted}, got {got}\n{pair.client.output}")
    return pair


def _seconds(pair: Pair) -> float:
    """The transfer time that the client prints. A client that the race above ends prints none: its whole run time."""
    said = re.search(r"^\d+ bytes in ([\d.]+) seconds", pair.client.output, re.MULTILINE)
    return float(said[1]) if said else pair.seconds


# rping closes its event channel under a thread that may be about to read from it: an exit code,
# after the last of its rounds. A round that failed would have said so.
_RPING_RACE = r"client DISCONNECT EVENT\.\.\.\s+rdma_get_cm_event: Bad file descriptor"


def rping(count: int) -> Test:
    """Connection by rdma_cm; SEND, READ and WRITE in turn, the client checks every byte."""
    return lambda bench: _rping(bench, 32768, count)


def _rping(bench: Bench, size: int, count: int) -> str:
    options = f"-a {bench.server.ip} -V -C {count} -S {size}"
    # The server ends when it hears of the disconnect, which may be lost for good: the client has gone by then.
    pair = bench.pair(f"rping -s {options}", f"rping -c {options}", LISTENS_CM, serves_on=True, excused=_RPING_RACE)
    if "data compare error" in pair.client.output or "data mismatch" in pair.client.output:
        raise Failed(f"content: {pair.client.output}")
    return f"{count} x {size >> 10} KiB there and back, bytes checked, {pair.seconds:.1f} s"


PING = Case("ping", _ping, rdma=False)
PLAIN = [
    PING,
    Case("tcp", tcp(), rdma=False),
]
