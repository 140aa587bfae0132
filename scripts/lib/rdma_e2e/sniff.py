"""Packets of a guest's data port, from tcpdump in the guest."""

import base64
import concurrent.futures
import contextlib
import struct
from collections.abc import Iterator

from .guest import Guest

_MOST_S = 200


@contextlib.contextmanager
def sniffing(guests: tuple[Guest, ...], what: str, snaplen: int = 262144) -> Iterator[None]:
    """Capture in each of `guests` while the block runs; `what` is a filter as tcpdump has it."""
    script = (
        "echo $$ >/tmp/sniff.pid; rm -f /tmp/sniff.log; "
        f"exec tcpdump -i data0 -Z root -U -B 8192 -s {snaplen} -w /tmp/sniff.pcap '{what}' 2>/tmp/sniff.log"
    )
    with concurrent.futures.ThreadPoolExecutor(len(guests)) as pool:
        sniffers = [pool.submit(guest.run, script, _MOST_S) for guest in guests]
        try:
            for guest in guests:
                guest.run("until grep -q listening /tmp/sniff.log; do sleep 0.2; done", 20)
            yield
        finally:
            # The kernel hands packets to tcpdump in blocks, after a second at the
            # latest; packets not handed over yet are lost with its end.
            with concurrent.futures.ThreadPoolExecutor(len(guests)) as enders:
                list(enders.map(lambda guest: guest.run("sleep 3; kill $(cat /tmp/sniff.pid)", 10), guests))
            concurrent.futures.wait(sniffers)


def pcap(guest: Guest) -> bytes:
    """The guest's last capture as a file."""
    return base64.b64decode(guest.run("base64 /tmp/sniff.pcap", 120).output)


def frames(guest: Guest) -> Iterator[bytes]:
    """The frames of the guest's last capture."""
    file = pcap(guest)
    at = 24
    while at + 16 <= len(file):
        length = struct.unpack_from("<IIII", file, at)[2]
        yield file[at + 16 : at + 16 + length]
        at += 16 + length
