"""Offloads of the kernel (TSO, GRO, checksums) in front of a gateway whose port is a packet socket.

checks.tcp calls `complaints`, which runs this file as a program in the two hosts.

A host that leaves checksums to the NIC gets no connection: nobody computes them. Where the interface of the box merges what it receives (GRO),
the merged segments are longer than a frame: the box drops them, says why, and the connection stalls. With the offloads off, all of it crosses.
"""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lr2run import Processes, TimedOut, wait_until

if TYPE_CHECKING:
    from .tcp import Bench

_PORT = 5202
_BYTES = 1 << 18
_TRY_S = 2.5
"""250 round trips, and longer than a SYN waits for its repetition."""
_SAID_S = 10
_SAID = "ethtool -K INTERFACE gro off"
_OFFLOADS = ("tso", "gso", "gro", "tx", "rx")
_TOO_LONG = "lr2_port_receive_dropped_frames_total"


def switched(interface: str, how: str) -> list[str]:
    """The command that switches the offloads of an interface."""
    return ["ethtool", "--offload", interface, *(word for name in _OFFLOADS for word in (name, how))]


def _tried(bench: "Bench", processes: Processes, what: str) -> str:
    """What became of a connection between the hosts."""
    program = bench.hosts["a"].words(sys.executable, "-m", __name__, "try", bench.receiver_address, str(_TRY_S))
    return processes.start(f"try-{what}", program).wait_line("^became: (.*)$", 10 * _TRY_S)[1]


def complaints(bench: "Bench", processes: Processes) -> Iterator[str]:
    hosts = bench.hosts.values()
    listener = processes.start("listener", bench.hosts["b"].words(sys.executable, "-m", __name__, "listen", bench.receiver_address))
    listener.wait_line("^ready", _SAID_S)
    start = time.monotonic()
    with bench.boxes("offloads", tunnel=False, loss=0) as (box, _):
        for host in hosts:
            host.run(*switched("eth0", "on"))
        if (became := _tried(bench, processes, "on")) != "no connection":
            yield f"hosts that leave checksums to the NIC: {became}"
        for host in hosts:
            host.run(*switched("eth0", "off"))
        subprocess.run(switched("lan-a", "on"), check=True, capture_output=True)
        if (became := _tried(bench, processes, "gro")) != "stalled":
            yield f"a box whose interface merges segments: {became}"
        if not box.metrics().total(_TOO_LONG, port="lan", reason="too_long"):
            yield f"{_TOO_LONG} does not count the merged segments"
        try:
            wait_until(lambda: box.metrics().total("lr2_degraded", reason="mtu") and _SAID in box.process.output(), _SAID_S, f"{_SAID!r} in the log")
        except TimedOut as error:
            yield str(error)
        subprocess.run(switched("lan-a", "off"), check=True, capture_output=True)
        if (became := _tried(bench, processes, "off")) != "through":
            yield f"without offloads: {became}"
    print(f"  offloads: as expected or complained of, {time.monotonic() - start:.1f} s")


def _count(connection: socket.socket) -> None:
    with connection:
        total = 0
        while data := connection.recv(_BYTES):
            total += len(data)
        connection.sendall(str(total).encode())


def _listen(address: str) -> None:
    with socket.create_server((address, _PORT)) as listener:
        print("ready", flush=True)
        while True:
            threading.Thread(target=_count, args=(listener.accept()[0],), daemon=True).start()


def _try(address: str, patience_s: float) -> str:
    try:
        connection = socket.create_connection((address, _PORT), timeout=patience_s)
    except OSError:
        return "no connection"
    with connection:
        try:
            # All of it at once, so that there is something to merge.
            connection.sendall(bytes(_BYTES))
            connection.shutdown(socket.SHUT_WR)
            return "through" if connection.recv(64) == str(_BYTES).encode() else "damaged"
        except OSError:
            return "stalled"


if __name__ == "__main__":
    role, host, *patience = sys.argv[1:]
    if role == "listen":
        _listen(host)
    else:
        print(f"became: {_try(host, float(*patience))}", flush=True)
