"""An `lr2-gateway` process: its configuration file, its start, its metrics."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .metrics import Metrics, scrape
from .process import Process, ProcessFailed, Processes
from .waiting import free_tcp_port, wait_until

# malloc asks for transparent hugepages, as in the systemd unit: it counts with many flows.
_TUNABLES = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1"
# A memif buffer takes a whole frame; 2^10 of them each way.
_MEMIF = "bsize=10240,rsize=10"


def memif(number: int, role: str, socket: Path) -> str:
    """A port on a memif socket, on which `role` "server" listens, for `lr2-gateway`, `lr2-wan` and `lr2-host`."""
    return f"net_memif{number},role={role},id=0,socket={socket},socket-abstract=no,{_MEMIF}"


def toml(tables: Mapping[str, Any]) -> str:
    """TOML text of plain values, of tables one level deep and of lists of such, which is all a gateway's file has."""
    lines: list[str] = []
    sections: list[str] = []

    def pairs(table: Mapping[str, Any]) -> list[str]:
        return [f"{key} = {json.dumps(value)}" for key, value in table.items()]

    for name, value in tables.items():
        if isinstance(value, Mapping):
            sections += ["", f"[{name}]", *pairs(value)]
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            for table in value:
                sections += ["", f"[[{name}]]", *pairs(table)]
        else:
            lines += pairs({name: value})
    return "\n".join(lines + sections) + "\n"


def gateway_config(
    *,
    lan: str,
    wan: str,
    recovery: str,
    control_port: int,
    file_prefix: str,
    role: str = "both",
    mtu: int = 9000,
    memory: str = "512MiB",
    huge_pages: str = "auto",
    extra: Mapping[str, Mapping[str, Any]] | None = None,
    more_wans: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """A trial gateway between DPDK devices: unkeyed, and polite on a shared machine.

    `extra` adds keys to tables, or replaces them; `more_wans` are further WAN ports.
    """
    config: dict[str, Any] = {
        "role": role,
        "lan": {"device": lan, "mtu": mtu},
        "wan": {"device": wan, "mtu": mtu},
        "eal": {"huge_pages": huge_pages, "memory": memory, "file_prefix": file_prefix},
        "worker": {"idle": "adaptive"},
        "peer": {"lab_unkeyed": True},
        "recovery": {"mode": recovery},
        "control": {"listen": f"127.0.0.1:{control_port}"},
    }
    for table, keys in (extra or {}).items():
        config[table] = {**config.get(table, {}), **keys}
    if more_wans:
        config["wan"] = [config["wan"], *more_wans]
    return config


class Gateway:
    """A running gateway."""

    def __init__(self, name: str, process: Process, control_port: int) -> None:
        self.name = name
        self.process = process
        self.control_port = control_port

    @classmethod
    def start(
        cls, processes: Processes, program: Path, run: Path, name: str, within: Sequence[str | Path] = (), **config: Any
    ) -> "Gateway":
        """Write `name`.toml into `run` and start `program` with it; see `gateway_config` for the keywords.

        `within`: words before the command, such as those that enter a network namespace.
        """
        port = free_tcp_port()
        file = run / f"{name}.toml"
        file.write_text(toml(gateway_config(control_port=port, **config)))
        return cls(name, processes.start(name, [*within, "env", _TUNABLES, program, "--config", file]), port)

    def wait_ready(self, timeout_s: float = 30) -> None:
        """Until it answers on its control port."""

        def answers() -> Metrics | None:
            self.process.check()
            return scrape(self.control_port)

        wait_until(answers, timeout_s, f"{self.name}: /metrics")

    def metrics(self) -> Metrics:
        self.process.check()
        if (metrics := scrape(self.control_port)) is None:
            raise ProcessFailed(f"{self.name}: no answer from its /metrics")
        return metrics
