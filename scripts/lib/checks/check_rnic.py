"""The command line of scripts/check-rnic: `python3 -m checks.check_rnic`, in scripts/test."""

import contextlib
import io
import sys

from check_rnic import CHECKS
from check_rnic.__main__ import Guide
from check_rnic.options import parse

_PORTS = "--a 0000:3b:00.0 --b 0000:3b:00.1"
# Options, and what the one line says about them.
_REFUSED = (
    ("", "--a is missing"),
    ("--a 0000:3b:00.0", "--b is missing"),
    ("--a net_null0 --b net_null0", "the same port"),
    (f"{_PORTS} --hold 5", "no quantity such as '10ms'"),
    (f"{_PORTS} --hold 2s", "1ms to 1s"),
    (f"{_PORTS} --wait 2h", "no quantity"),
    (f"{_PORTS} --wait 61m", "1s to 60m"),
    (f"{_PORTS} --only gaps", "no check 'gaps'"),
    (f"{_PORTS} --only gap --skip gap", "leave no check"),
    (f"{_PORTS} --out /nowhere/at/all", "there is no folder /nowhere/at"),
    (f"{_PORTS} --mtu large", "--mtu"),
)


def _refused(words: str) -> tuple[int, str]:
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            parse(words.split())
        except SystemExit as end:
            return int(end.code or 0), said.getvalue()
    return 0, ""


def _told(*lines: str) -> str:
    options, _, _ = parse(f"{_PORTS} --rdma mlx5_0 --gid-index 3 --address 192.0.2.2".split())
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        guide = Guide(options)
        for line in lines:
            guide.tell(line)
    return said.getvalue()


def _problems() -> list[str]:
    problems = []
    for words, part in _REFUSED:
        code, text = _refused(words)
        if code != 2 or part not in text or text.count("\n") != 1:
            problems.append(f"{words}: exit code {code}, {text!r} instead of one line with {part!r}")
    options, _, _ = parse(f"{_PORTS} --only {','.join(CHECKS)} --wait 60m --out /tmp/x.y".split())
    if (options.wait, options.json.name, options.only) != ("3600000000us", "x.y.json", CHECKS):
        problems.append(f"options: {options}")
    told = _told(
        '{"event":"waits","traffic":"reads"}',
        '{"event":"begins","check":"gap","does":"One packet is dropped."}',
        '{"event":"ends","check":"gap","verdict":"as expected","observed":"1 NAK"}',
        "lr2-check-rnic: ready",
        "lr2-check-rnic: a port is gone",
    )
    for part in ("ib_read_bw -s 65536 -d mlx5_0 -x 3", "192.0.2.2\n", "READs of several packets, 300 s at most", "gap: One packet", "as expected: 1 NAK", "a port is gone"):
        if part not in told:
            problems.append(f"no {part!r} in what is told:\n{told}")
    if "ready" in told or "{" in told:
        problems.append(f"what is not for people is told:\n{told}")
    return problems


def main() -> int:
    problems = _problems()
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
