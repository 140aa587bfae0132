"""Types of options, for argparse: each refuses a value that can't work, and says what can."""

import argparse
from collections.abc import Callable
from pathlib import Path

from .units import parse_bits, parse_seconds

Parse = Callable[[str], float]


def checked(parse: Parse, fits: Callable[[float], bool], allowed: str) -> Parse:
    """`parse` for argparse, of values that fit."""

    def one(text: str) -> float:
        try:
            value = parse(text)
        except ValueError:
            value = None
        if value is None or not fits(value):
            raise argparse.ArgumentTypeError(f"{text!r}: give {allowed}")
        return value

    return one


def _fraction(text: str) -> float:
    return float(text.rstrip("%")) / (100 if text.endswith("%") else 1)


def positive(kind: Parse) -> Parse:
    return checked(kind, lambda value: value > 0, "a number greater than 0")


share = checked(_fraction, lambda value: 0 <= value < 1, "a share, 0 to 1, or 0% to 100%")
rate = checked(parse_bits, lambda value: 1e6 <= value <= 1e12, "a rate such as 1Gbps, 1Mbps to 1Tbps")
time = checked(parse_seconds, lambda value: 0 <= value <= 10, "a time such as 10ms, 10s at most")


def as_written(kind: Parse) -> Callable[[str], str]:
    """For a program that reads the same quantities."""

    def one(text: str) -> str:
        kind(text)
        return text

    return one


def new_file(text: str) -> Path:
    """A file that is written at the end."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: it is a folder")
    if not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: there is no folder {path.parent}")
    return path
