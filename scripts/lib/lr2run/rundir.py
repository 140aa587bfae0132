"""The temporary folder of one run: sockets, configurations, logs."""

import shutil
import tempfile
from pathlib import Path
from typing import Self


class RunDir:
    """A fresh folder under /tmp, removed at the end unless `keep` is set by then.

    /tmp and a short name, because the path of a Unix socket ends at 107 bytes.
    """

    def __init__(self, name: str, keep: bool = False) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=f"{name}.", dir="/tmp"))
        self.keep = keep

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.keep:
            shutil.rmtree(self.path, ignore_errors=True)
