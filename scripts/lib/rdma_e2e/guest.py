"""A QEMU guest with a Soft-RoCE interface, and a shell in it."""

import re
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from lr2run import Processes, TimedOut, free_tcp_port

_MEMORY_MIB = 384
_MTU = 9000
# Offloads would hand the gateway frames that no wire carries: segments of 64 KiB,
# checksums left to the card.
_NO_OFFLOADS = ",".join(
    f"{feature}=off"
    for feature in (
        *("mq", "csum", "gso", "guest_csum", "guest_tso4", "guest_tso6", "guest_ecn", "guest_ufo"),
        *("host_tso4", "host_tso6", "host_ecn", "host_ufo"),
    )
)
_EXIT_MARK = "guest-exit-code"


@dataclass(frozen=True)
class Result:
    """A finished command of the guest: standard output and error together."""

    code: int
    output: str

    @property
    def ok(self) -> bool:
        return self.code == 0


class Guest:
    """Guest number 1 or 2. The data port is `data0`, 10.9.0.<number>/24; its RDMA device is `rxe0`."""

    def __init__(self, number: int, image: Path, processes: Processes, run: Path, netdev: str) -> None:
        """Boot it. `netdev` is QEMU's network backend with the id `data`."""
        self.number = number
        self.name = f"guest{number}"
        self.ip = f"10.9.0.{number}"
        self.mac = f"52:54:00:aa:00:{number:02x}"
        self._console = run / f"{self.name}.console"
        self._console.touch()
        self._port = free_tcp_port()
        self._process = processes.start(self.name, self._qemu(image, netdev))

    def _qemu(self, image: Path, netdev: str) -> list[str | Path]:
        # TCG, never KVM: where this runs may be a virtual machine itself, whose
        # nested KVM is absent or broken; so it is the same everywhere.
        # vectors=0: QEMU 7.2 crashes with vhost-user, TCG and MSI-X together.
        # Shared memory: the vhost-user backend maps the guest's buffers.
        # restrict=on: the guest reaches nothing but the port that is forwarded to it.
        return [
            "qemu-system-x86_64",
            *("-name", self.name, "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "1"),
            *("-m", f"{_MEMORY_MIB}", "-numa", "node,memdev=mem"),
            *("-object", f"memory-backend-memfd,id=mem,size={_MEMORY_MIB}M,share=on"),
            *("-nodefaults", "-display", "none", "-no-reboot", "-serial", f"file:{self._console}"),
            *netdev.split(),
            "-device",
            f"virtio-net-pci,netdev=data,mac={self.mac},vectors=0,rx_queue_size=1024,tx_queue_size=1024,"
            f"mrg_rxbuf=on,romfile=,{_NO_OFFLOADS}",
            *("-netdev", f"user,id=ctl,restrict=on,hostfwd=tcp:127.0.0.1:{self._port}-:5000"),
            *("-device", f"virtio-net-pci,netdev=ctl,mac=52:54:00:cc:00:{self.number:02x},romfile="),
            *("-device", "virtio-rng-pci"),
            *("-kernel", image / "vmlinuz", "-initrd", image / "initrd.gz"),
            "-append",
            "console=ttyS0 loglevel=6 panic=-1 mitigations=off nokaslr "
            f"lr2.name={self.name} lr2.ip={self.ip}/24 lr2.mtu={_MTU}",
        ]

    def console(self) -> str:
        return self._console.read_text(errors="replace")

    def wait_ready(self, timeout_s: float) -> None:
        """Until it has booted, has its `rxe0`, and answers."""
        deadline = time.monotonic() + timeout_s
        while "GUEST-READY" not in (console := self.console()):
            self._process.check()
            if time.monotonic() > deadline:
                raise TimedOut(f"{self.name}: not up within {timeout_s:g} s:\n{_tail(console)}")
            time.sleep(0.2)
        if "GUEST-PROBLEM" in console:
            raise TimedOut(f"{self.name}: came up, but not whole:\n{_tail(console)}")
        while not (self._process.alive and self.run("true", 5).ok):
            self._process.check()
            if time.monotonic() > deadline:
                raise TimedOut(f"{self.name}: its shell does not answer")
            time.sleep(0.2)

    def run(self, script: str, timeout_s: float) -> Result:
        """Run shell commands in the guest.

        They end after `timeout_s` there, with exit code 143; a guest that does not answer
        soon after that gives exit code 255. Never raises: a failure is a result.
        """
        # A session of its own per script, and at the end a signal to all that is
        # left in it: a command that outlives its time limit must not keep the
        # connection, or the RDMA device, for the next one.
        whole = (
            "exec 2>&1\nulimit -l unlimited\n"
            f"cat >/tmp/script.$$ <<'guest-script-end'\n{script}\nguest-script-end\n"
            f"exec setsid sh -c 'timeout {max(1, round(timeout_s))} sh /tmp/script.'$$' </dev/null; code=$?\n"
            f'echo; echo {_EXIT_MARK} $code; trap "" TERM; kill -TERM 0\'\n'
        )
        output = b""
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=timeout_s + 15) as link:
                link.sendall(whole.encode())
                link.shutdown(socket.SHUT_WR)
                while part := link.recv(65536):
                    output += part
        except OSError as error:
            return Result(255, output.decode(errors="replace") + f"\n{self.name}: {error}")
        text = output.decode(errors="replace")
        if match := re.search(rf"\n?^{_EXIT_MARK} (\d+)\s*\Z", text, re.MULTILINE):
            return Result(int(match[1]), text[: match.start()].strip("\n"))
        return Result(255, text + f"\n{self.name}: the shell ended early")

    def counters(self) -> dict[str, int]:
        """rxe's own counters, `hw_counters` of the RDMA device."""
        # One program for all files: to start one takes an emulated guest tens of milliseconds.
        result = self.run("cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep . *", 20)
        pairs = (line.split(":") for line in result.output.splitlines())
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _tail(text: str, lines: int = 15) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])
