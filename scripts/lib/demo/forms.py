"""The goodput of a single long flow in theory, as a share of that without loss.

One flow, limited by its NIC; a slot is a packet's time at the NIC's rate.
From docs/protocol.md, "What recovery is worth".
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Circumstances:
    """As measured."""

    loss: float
    """Chance that a packet begins a gap."""
    window: float
    """Round-trip time in packets."""
    timeout: float
    """Retransmission timeout in packets."""
    ack_lag: float
    """Packets that the destination has accepted and not acknowledged, on average."""
    exposure: float
    """Packets, on average, of which none may be lost again after a rewind: an RNIC ignores a second NAK before an ACK."""


def go_back_n(at: Circumstances) -> float:
    """RNICs alone. A loss costs a round trip of packets, and a timeout if no NAK may tell of it."""
    p = at.loss
    return 1 / (1 + p * (at.window + 1) + at.exposure * p * p * at.timeout / (1 - p))


def collaborative(at: Circumstances) -> float:
    """Mode lr2. Each rewind repairs all losses of a round trip; it starts ack_lag before the first."""
    p, w = at.loss, at.window
    return (1 + p * w) / (1 + 2 * p * w + p * at.ack_lag)


def selective(at: Circumstances) -> float:
    """Mode cached. Only lost packets are sent again, and not by the source."""
    return 1 - at.loss


BY_MODE = {
    "direct": go_back_n,
    "off": go_back_n,
    "lr2": collaborative,
    "cached": selective,
    "auto": selective,
    "tunnel": selective,
    "tunnel-udp": selective,
}
