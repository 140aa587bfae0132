"""Applications as they are: disks and files over RDMA, and programs for TCP that are given RDMA's sockets.

Each moves a file of random bytes from guest 1 to guest 2, and compares checksums.
"""

import contextlib
import time
from collections.abc import Iterator

from .bench import Bench, Failed
from .cases import LISTENS_CM, Test
from .guest import Guest

_LIMIT_S = 60
_NQN = "nqn.2026-01.test:disk"
_NVMET = "/sys/kernel/config/nvmet"
_FOREVER = 2**31 - 1
# Of nfsd's exports: insecure ports too, no check of subtrees, named by a number.
_EXPORT_FLAGS = 0x2 | 0x400 | 0x2000


def nvme(mebibytes: int) -> Test:
    """A disk over NVMe-oF: the kernel's target with a disk in memory, and the kernel's host."""

    def run(bench: Bench) -> str:
        target = f"""
            modprobe brd rd_nr=1 rd_size={1024 * mebibytes} && modprobe nvmet-rdma
            mount -t configfs none /sys/kernel/config
            mkdir -p {_NVMET}/subsystems/{_NQN}/namespaces/1 {_NVMET}/ports/1
            cd {_NVMET}/subsystems/{_NQN}
            echo 1 >attr_allow_any_host
            echo -n /dev/ram0 >namespaces/1/device_path
            echo 1 >namespaces/1/enable
            cd {_NVMET}/ports/1
            echo rdma >addr_trtype; echo ipv4 >addr_adrfam; echo {bench.server.ip} >addr_traddr; echo 4420 >addr_trsvcid
            ln -s {_NVMET}/subsystems/{_NQN} subsystems/ && {LISTENS_CM}
        """
        target_end = f"""
            rm {_NVMET}/ports/1/subsystems/{_NQN}
            rmdir {_NVMET}/ports/1 {_NVMET}/subsystems/{_NQN}/namespaces/1 {_NVMET}/subsystems/{_NQN}
            umount /sys/kernel/config; rmmod nvmet_rdma nvmet brd
        """
        # Two I/O queues would be as good as one here, and take longer to set up.
        host = f"""
            modprobe nvme-rdma
            echo transport=rdma,traddr={bench.server.ip},trsvcid=4420,nqn={_NQN},nr_io_queues=1 >/dev/nvme-fabrics
            for try in 1 2 3 4 5 6 7 8 9 10; do [ -b /dev/nvme0n1 ] && exit; sleep 0.3; done; exit 1
        """
        host_end = "echo 1 >/sys/class/nvme/nvme0/delete_controller; rmmod nvme_rdma nvme_fabrics"
        with _during(bench.server, target, target_end), _during(bench.client, host, host_end):
            seconds = _there_and_back(bench, mebibytes, "/dev/nvme0n1", "oflag=direct", "iflag=direct")
        return f"{mebibytes} MiB to a disk and back, checksum equal, {seconds:.1f} s"

    return run


def nfs(mebibytes: int) -> Test:
    """A file over NFS 4.2: the kernel's server with a folder in memory, and the kernel's client."""

    def run(bench: Bench) -> str:
        # The server ends its time of grace at once only if it has a folder for its clients' names.
        # Entries that a mount daemon would make for this one client are made beforehand.
        server = f"""
            modprobe nfsd && modprobe rpcrdma
            mkdir -p /tmp/export /var/lib/nfs/v4recovery && mount -t tmpfs export /tmp/export && mount -t nfsd nfsd /proc/fs/nfsd
            cd /proc/net/rpc
            echo 'nfsd {bench.client.ip} {_FOREVER} guest' >auth.unix.ip/channel
            echo 'guest /tmp/export {_FOREVER} {_EXPORT_FLAGS} 65534 65534 0' >nfsd.export/channel
            echo 'guest 1 \\x00000000 {_FOREVER} /tmp/export' >nfsd.fh/channel
            cd /proc/fs/nfsd
            echo '-3 +4.2' >versions; echo 'rdma 20049' >portlist; echo 2 >threads; echo Y >v4_end_grace
            {LISTENS_CM}
        """
        server_end = "echo 0 >/proc/fs/nfsd/threads; umount /proc/fs/nfsd; sleep 0.5; umount /tmp/export"
        options = f"vers=4.2,proto=rdma,port=20049,addr={bench.server.ip},clientaddr={bench.client.ip},sec=sys"
        client = f"modprobe nfsv4 && modprobe rpcrdma && mkdir -p /tmp/nfs && mount -i -t nfs4 -o {options} {bench.server.ip}:/ /tmp/nfs"
        with _during(bench.server, server, server_end), _during(bench.client, client, "umount /tmp/nfs"):
            seconds = _there_and_back(bench, mebibytes, "/tmp/nfs/file", "conv=fsync", "")
        return f"{mebibytes} MiB to a file and back, checksum equal, {seconds:.1f} s"

    return run


def preloaded(mebibytes: int) -> Test:
    """netcat, which knows TCP, with the sockets of librspreload.

    It ends without a word to its sockets, two seconds after its last byte: not fit to be timed.
    """

    def run(bench: Bench) -> str:
        wanted = _fill(bench, mebibytes)
        nc = "env LD_PRELOAD=/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so nc.traditional"
        pair = bench.pair(f"{nc} -l -p 7000 >/tmp/copy", f"{nc} -q 2 {bench.server.ip} 7000 </tmp/file", LISTENS_CM)
        _compare(wanted, bench.ask(bench.server, "sha256sum </tmp/copy; rm /tmp/copy"))
        return f"{mebibytes} MiB by netcat, checksum equal, {pair.seconds:.1f} s"

    return run


@contextlib.contextmanager
def _during(guest: Guest, begin: str, end: str) -> Iterator[None]:
    """Something that is set up in a guest for a while; `Failed` unless `begin` succeeds."""
    try:
        if not (result := guest.run(begin, _LIMIT_S)).ok:
            raise Failed(f"{guest.name}: exit code {result.code}\n{result.output}")
        yield
    finally:
        guest.run(end, _LIMIT_S)


def _there_and_back(bench: Bench, mebibytes: int, place: str, write: str, read: str) -> float:
    """Copy a file of the client to `place`, and from there past all caches. The seconds that took."""
    wanted = _fill(bench, mebibytes)
    size = f"bs=64k count={16 * mebibytes}"
    start = time.monotonic()
    bench.ask(bench.client, f"dd if=/tmp/file of={place} {size} {write} && echo 3 >/proc/sys/vm/drop_caches", _LIMIT_S)
    bench.ask(bench.client, f"dd if={place} of=/tmp/copy {size} {read}", _LIMIT_S)
    seconds = bench.took(time.monotonic() - start)
    _compare(wanted, bench.ask(bench.client, "sha256sum </tmp/copy; rm /tmp/copy"))
    return seconds


def _fill(bench: Bench, mebibytes: int) -> str:
    """Fill /tmp/file of the client with random bytes; their checksum."""
    return bench.ask(bench.client, f"dd if=/dev/urandom of=/tmp/file bs=64k count={16 * mebibytes} 2>/dev/null && sha256sum </tmp/file")


def _compare(wanted: str, got: str) -> None:
    if got != wanted:
        raise Failed(f"content: sent {wanted}, got {got}")
