"""One end of a TCP transfer, in the network namespace of a host: `python3 -m checks.tcp_host`, started by checks.tcp.

The receiver prints `ready`, takes one connection, and answers its end with what it got; the sender compares that with what it
sent, and prints a line of JSON.
"""

import hashlib
import json
import os
import socket
import struct
import sys
import time
from dataclasses import dataclass

PORT = 5201
_CHUNK = 1 << 16
# Of asm/socket.h and linux/tcp.h: Python has no names for them.
_SO_RCVBUFFORCE = 33
_SO_MAX_PACING_RATE = 47
_TCP_NOTSENT_LOWAT = 25
_TOTAL_RETRANS = 100
"""Where `tcpi_total_retrans` stands in `struct tcp_info`."""
_CONNECT_S = 20
_END_S = 40
# After the measured time, so that the last of it is under load too.
_BEYOND_S = 0.2


@dataclass(frozen=True)
class Transfer:
    """What both ends know."""

    address: str
    """Of the receiver."""
    warm_up: float
    seconds: float
    """The time that is measured, after the warm-up."""
    window: int
    """Bytes that the receiver lets the sender have in flight."""
    pace: float
    """Bit/s of IP packets at which the sender's TCP sends at most, as if its NIC had that rate."""

    def to_json(self) -> str:
        return json.dumps(self.__dict__)


def _receive(transfer: Transfer) -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 4 * transfer.window)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, transfer.window)
        listener.bind((transfer.address, PORT))
        listener.listen(1)
        print("ready", flush=True)
        connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, transfer.window)
    digest, total, measured, begin = hashlib.sha256(), 0, 0, None
    with connection:
        while data := connection.recv(_CHUNK):
            now = time.monotonic()
            begin = begin or now
            if transfer.warm_up <= now - begin < transfer.warm_up + transfer.seconds:
                measured += len(data)
            digest.update(data)
            total += len(data)
        answer = {"bytes": total, "sha256": digest.hexdigest(), "bps": measured * 8 / transfer.seconds}
        connection.sendall(json.dumps(answer).encode())


def _connected(address: str) -> socket.socket:
    """A SYN that is lost is repeated by the kernel; the way may not be there yet."""
    end = time.monotonic() + _CONNECT_S
    while True:
        try:
            return socket.create_connection((address, PORT), timeout=5)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def _send(transfer: Transfer) -> bool:
    digest, total = hashlib.sha256(), 0
    with _connected(transfer.address) as connection:
        connection.settimeout(_END_S)
        for number, name, value in (
            # What most hosts have; a machine's own choice would be another figure.
            (socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic"),
            # Little waits in the socket at the end.
            (socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, _CHUNK),
            (socket.SOL_SOCKET, _SO_MAX_PACING_RATE, round(transfer.pace / 8)),
        ):
            connection.setsockopt(number, name, value)
        end = time.monotonic() + transfer.warm_up + transfer.seconds + _BEYOND_S
        while time.monotonic() < end:
            data = os.urandom(_CHUNK)
            connection.sendall(data)
            digest.update(data)
            total += len(data)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(_CHUNK):
            answer += part
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TOTAL_RETRANS + 4)
    got = json.loads(answer)
    is_same = got["bytes"] == total and got["sha256"] == digest.hexdigest()
    (resent,) = struct.unpack_from("I", info, _TOTAL_RETRANS)
    print(json.dumps({"bps": got["bps"], "bytes": total, "intact": is_same, "resent": resent}), flush=True)
    return is_same


def main() -> int:
    role, what = sys.argv[1:]
    transfer = Transfer(**json.loads(what))
    if role == "receive":
        _receive(transfer)
        return 0
    return 0 if _send(transfer) else 1


if __name__ == "__main__":
    sys.exit(main())
