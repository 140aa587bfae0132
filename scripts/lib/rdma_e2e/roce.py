"""Just enough of RoCEv2 over IPv4 to watch a reliable connection and to answer for it."""

import struct
import zlib
from dataclasses import dataclass

_ETHERNET = 14
_UDP = 8
_BTH = 12
_ICRC = 4
PSN_MODULUS = 1 << 24

ACKNOWLEDGE = 0x11
_REQUESTS = frozenset((*range(0x00, 0x0D), 0x13, 0x14))
_NAK_SEQUENCE_ERROR = 0x60


@dataclass(frozen=True)
class Packet:
    """The fields of a reliable connection's packet that matter here."""

    opcode: int
    qpn: int
    psn: int
    syndrome: int
    """Of an acknowledgement, else 0."""

    @property
    def is_request(self) -> bool:
        return self.opcode in _REQUESTS

    @property
    def is_ack(self) -> bool:
        return self.opcode == ACKNOWLEDGE and self.syndrome >> 5 == 0

    @property
    def is_nak(self) -> bool:
        return self.opcode == ACKNOWLEDGE and self.syndrome >> 5 == 3


def parse(frame: bytes) -> Packet | None:
    """None: not a packet of a reliable connection over IPv4 and UDP port 4791."""
    if len(frame) < _ETHERNET + 20 + _UDP + _BTH + _ICRC or frame[12:14] != b"\x08\x00" or frame[23] != 17:
        return None
    udp = _ETHERNET + (frame[14] & 15) * 4
    if frame[udp + 2 : udp + 4] != b"\x12\xb7":
        return None
    bth = udp + _UDP
    opcode = frame[bth]
    if opcode >> 5 != 0:
        return None
    syndrome = frame[bth + _BTH] if opcode == ACKNOWLEDGE else 0
    return Packet(
        opcode, int.from_bytes(frame[bth + 5 : bth + 8]), int.from_bytes(frame[bth + 9 : bth + 12]), syndrome
    )


def ahead(a: int, b: int) -> int:
    """How far PSN `a` is ahead of `b`; negative: behind. Serial arithmetic over 24 bits."""
    return (a - b + (PSN_MODULUS >> 1)) % PSN_MODULUS - (PSN_MODULUS >> 1)


def icrc(ip_packet: bytes) -> bytes:
    """The invariant CRC of an IPv4 packet that ends in one, as it goes on the wire."""
    header = (ip_packet[0] & 15) * 4
    masked = bytearray(ip_packet[:-_ICRC])
    masked[1] = masked[8] = 0xFF  # type of service, time to live
    masked[10:12] = b"\xff\xff"  # header checksum
    masked[header + 6 : header + 8] = b"\xff\xff"  # UDP checksum
    masked[header + _UDP + 4] = 0xFF  # FECN, BECN, reserved
    return struct.pack("<I", zlib.crc32(masked, zlib.crc32(b"\xff" * 8)))


def nak_like(ack: bytes, psn: int) -> bytes:
    """A NAK (PSN sequence error) for `psn`, with headers and MSN of `ack`, an ACK frame of the connection."""
    bth = _ETHERNET + (ack[14] & 15) * 4 + _UDP
    end = _ETHERNET + int.from_bytes(ack[16:18])
    nak = bytearray(ack[:end])
    nak[bth + 9 : bth + 12] = psn.to_bytes(3)
    nak[bth + _BTH] = _NAK_SEQUENCE_ERROR
    nak[end - _ICRC : end] = icrc(bytes(nak[_ETHERNET:end]))
    return bytes(nak) + ack[end:]
