"""Hugepages for the time of a run."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

_POOL = Path("/sys/kernel/mm/hugepages/hugepages-2048kB")
_PAGE_BYTES = 2 << 20


def _read(name: str) -> int:
    return int((_POOL / name).read_text())


@contextlib.contextmanager
def hugepages(need_bytes: int) -> Iterator[bool]:
    """Have `need_bytes` of free 2 MiB hugepages, if the kernel lets us; False: do without.

    Only the added pages are given back at the end, so that another user's change
    in the meantime stays.
    """
    added = 0
    enough = False
    try:
        lacking = -(-need_bytes // _PAGE_BYTES) - _read("free_hugepages")
        before = _read("nr_hugepages")
        if lacking > 0:
            (_POOL / "nr_hugepages").write_text(str(before + lacking))
            added = _read("nr_hugepages") - before
        enough = added >= lacking
        if not enough:
            _give_back(added)
            added = 0
    except (OSError, ValueError):
        # No such pool, no permission (a container), no memory: not an error.
        pass
    try:
        yield enough
    finally:
        _give_back(added)


def _give_back(pages: int) -> None:
    if pages > 0:
        with contextlib.suppress(OSError):
            (_POOL / "nr_hugepages").write_text(str(max(0, _read("nr_hugepages") - pages)))
