"""Running the programs of this project together: shared parts of the scripts.

Standard library only, Python 3.11 (Debian 12).

    with tidy_end(limit_s=600), RunDir("lr2-demo") as run, Processes(run.path) as processes:
        wan = processes.start("wan", ["lr2-wan", ...])
        wan.wait_line("ready", timeout_s=20)

On every end (an exception, Ctrl-C, SIGTERM, the time limit), the processes
are stopped, by pid, and the folder is removed, in the reverse order of creation.
"""

from . import quantities
from .ending import Ended, tidy_end
from .gateway import Gateway, memif
from .hugepages import hugepages
from .metrics import Metrics
from .namespace import Namespace, cable, has_carrier, ip, leave_network, packet_socket
from .priority import hurry
from .process import Process, ProcessFailed, Processes
from .reports import last_line, together
from .rundir import RunDir
from .units import human_bits, human_bytes, human_seconds, parse_bits, parse_seconds
from .waiting import TimedOut, free_tcp_port, wait_until

__all__ = [
    "Ended",
    "Gateway",
    "Metrics",
    "Namespace",
    "Process",
    "ProcessFailed",
    "Processes",
    "RunDir",
    "TimedOut",
    "cable",
    "free_tcp_port",
    "has_carrier",
    "hugepages",
    "human_bits",
    "human_bytes",
    "human_seconds",
    "hurry",
    "ip",
    "last_line",
    "leave_network",
    "memif",
    "packet_socket",
    "parse_bits",
    "parse_seconds",
    "quantities",
    "tidy_end",
    "together",
    "wait_until",
]
