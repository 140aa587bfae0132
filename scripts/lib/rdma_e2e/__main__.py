"""Runs the tests; see `scripts/rdma-e2e --help`."""

import argparse
import json
import signal
import sys
import time
from pathlib import Path

from lr2run import Ended, ProcessFailed, Processes, RunDir, TimedOut, tidy_end

from . import cases
from .bench import Bench, Failed
from .guest import Guest
from .link import Gateways, Link, Premise, Settings, Testpmd
from .run import Run, say

_LIMIT_S = 12 * 60


def _options() -> argparse.Namespace:
    names = [case.name for case in (*cases.PLAIN, *cases.RDMA)]
    parser = argparse.ArgumentParser(
        prog="rdma-e2e",
        description="Real Soft-RoCE between two QEMU guests, through two gateways and a long, lossy link.",
        epilog=f"Tests: {', '.join(names)}. Exit code: 0 all passed, 1 some failed, 2 could not run.",
    )
    parser.add_argument(
        "--mode",
        action="append",
        choices=("lr2", "cached", "auto"),
        help="recovery mode of the gateways; may be repeated [lr2 and cached]",
    )
    parser.add_argument(
        "--only", action="append", choices=names, metavar="TEST", help="run only this test; may be repeated"
    )
    parser.add_argument("--delay", default="10ms", help="one-way delay of the link [10ms]")
    parser.add_argument("--loss", type=float, default=0.01, help="share of frames lost, each way [0.01]")
    parser.add_argument("--rate", default="1Gbps", help="rate of the link [1Gbps]")
    parser.add_argument("--seed", type=int, default=1, help="seed of the losses [1]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and configurations")
    parser.add_argument(
        "--capture", action="store_true", help="capture both guests' RoCE headers, into the folder of --keep"
    )
    parser.add_argument(
        "--through",
        choices=("gateways", "testpmd", "premise"),
        default="gateways",
        help="what stands between the guests. testpmd: no gateway and no loss, to look for a fault of the "
        "guests. premise: tests that a NAK with PSN = acked + 1, which the destination never sent, rewinds "
        "this kernel's Soft-RoCE",
    )
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--guest", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--programs", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _link(options: argparse.Namespace, run: Path) -> Link:
    match options.through:
        case "testpmd":
            return Testpmd(run)
        case "premise":
            return Premise(run)
        case _:
            settings = Settings(options.rate, options.delay, options.loss, options.seed)
            return Gateways(run, options.programs, options.mode or ["lr2", "cached"], settings)


def _run(options: argparse.Namespace, folder: Path) -> Run:
    with Processes(folder) as processes:
        link = _link(options, folder)
        guests = [Guest(number, options.guest, processes, folder, link.netdev(number)) for number in (1, 2)]
        run = Run(link, Bench(*guests), set(options.only or []), folder if options.capture else None)
        try:
            run.all()
        except (Failed, ProcessFailed, TimedOut, Ended) as error:
            say(f"FAIL {error}")
            run.results.append({"name": "run", "mode": "", "ok": False, "problems": [str(error)]})
            if isinstance(error, Ended):
                run.ended = error
        return run


def main() -> int:
    options = _options()
    if options.check:
        return 0
    start = time.monotonic()
    with tidy_end(_LIMIT_S), RunDir("lr2-e2e", keep=options.keep or options.capture) as folder:
        run = _run(options, folder.path)
        # For whoever wants to know why; not when a person had enough of it.
        folder.keep |= not run.ok and not (run.ended and run.ended.number != signal.SIGALRM)
        if folder.keep:
            say(f"     logs and configurations are in {folder.path}")
    seconds = time.monotonic() - start
    failed = sum(not result["ok"] for result in run.results)
    verdict = "PASS" if run.ok else "FAIL"
    say(f"{verdict}: {len(run.results) - failed} of {len(run.results)} passed, {seconds:.0f} s")
    if options.json:
        report = {
            "ok": run.ok,
            "through": options.through,
            "kernel": (options.guest / "kernel").read_text().strip(),
            "seconds": round(seconds, 1),
            "tests": run.results,
            "links": run.reports,
        }
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    if run.ended:
        return run.ended.exit_code
    return 0 if run.ok else 1


if __name__ == "__main__":
    sys.exit(main())
