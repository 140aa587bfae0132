"""Priority for programs that stand for hardware."""

import contextlib
import ctypes
import os
import struct
from pathlib import Path

from .process import Process

_NICE = -20
_SLICE_NS = 100_000
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}.get(os.uname().machine, -1)
_libc = ctypes.CDLL(None, use_errno=True)


def hurry(*processes: Process) -> None:
    """Ahead of everything else on this machine, if that may be had.

    NICs, links and boxes don't wait for a CPU. These programs do, all of them
    on two cores perhaps, and other programs there would show as delay.
    So: the highest nice level, and the shortest time slice, with which a thread
    that wakes up need not wait for another's slice to end (Linux 6.12 and
    later; earlier ones ignore it). Not real-time priority: Linux would stop
    the programs for 50 ms at a time in favour of the rest.
    """
    attributes = struct.pack("=IIQiIQQQ", 48, os.SCHED_OTHER, 0, _NICE, 0, _SLICE_NS, 0, 0)
    for process in processes:
        # A process or thread that has ended meanwhile needs no priority; `Process.check` reports it.
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{process.pid}/task").iterdir():
                _libc.syscall(_SCHED_SETATTR, int(thread.name), attributes, 0)
        # With automatic grouping a nice level counts within a session only.
        with contextlib.suppress(OSError):
            Path(f"/proc/{process.pid}/autogroup").write_text(str(_NICE))
