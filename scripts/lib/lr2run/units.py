"""Figures for people, and back."""

import re

_DECIMAL = ("", "k", "M", "G", "T")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")
_BITS = {"bps": 1.0, "kbps": 1e3, "mbps": 1e6, "gbps": 1e9, "tbps": 1e12}
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}


def _parse(text: str, units: dict[str, float], example: str) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([a-zµ]+)\s*", text, re.IGNORECASE)
    if not match or match[2].lower() not in units:
        raise ValueError(f"{text!r} is no quantity such as {example!r}; the units are {', '.join(units)}")
    return float(match[1]) * units[match[2].lower()]


def parse_bits(text: str) -> float:
    """`"1Gbps"` to bits per second."""
    return _parse(text, _BITS, "1Gbps")


def parse_seconds(text: str) -> float:
    """`"10ms"` to seconds."""
    return _parse(text, _SECONDS, "10ms")


def _scaled(value: float, step: float, units: tuple[str, ...]) -> tuple[float, str]:
    power = 0
    while abs(value) >= step and power + 1 < len(units):
        value /= step
        power += 1
    return value, units[power]


def human_bits(bits_per_second: float) -> str:
    """`940.2 Mbit/s`"""
    value, unit = _scaled(bits_per_second, 1000, _DECIMAL)
    return f"{value:.4g} {unit}bit/s"


def human_bytes(count: float) -> str:
    """`1.5 MiB`"""
    value, unit = _scaled(count, 1024, _BINARY)
    return f"{value:.4g} {unit}"


def human_seconds(seconds: float) -> str:
    """`20 ms`"""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(seconds) >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
