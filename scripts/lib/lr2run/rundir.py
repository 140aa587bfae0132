"""The temporary folder of one run: sockets, configurations, logs."""

import shutil
import tempfile
from pathlib import Path
from typing import Self

from .process import ProcessFailed
from .waiting import TimedOut


class RunDir:
    """A fresh folder under /tmp, removed at the end unless `keep` is set or a process failed: then its logs say why.

    /tmp and a short name, because the path of a Unix socket ends at 107 bytes.
    """

    def __init__(self, name: str, keep: bool = False) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=f"{name}.", dir="/tmp"))
        self.keep = keep

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.keep |= kind is not None and issubclass(kind, ProcessFailed | TimedOut)
        if not self.keep:
            shutil.rmtree(self.path, ignore_errors=True)
