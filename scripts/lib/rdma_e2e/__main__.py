"""Runs the tests; see `scripts/rdma-e2e --help`."""

import argparse
import json
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from lr2run import Ended, ProcessFailed, Processes, RunDir, TimedOut, quantities, tidy_end

from . import scenes
from .bench import Bench, Failed
from .guest import Guest
from .link import Link, LongHaul
from .run import Run, say
from .scenes import Scene

_LIMIT_S = 14 * 60


def _options() -> argparse.Namespace:
    names = [scene.setting.name for scene in scenes.SCENES]
    parser = argparse.ArgumentParser(
        prog="rdma-e2e",
        description="Real Soft-RoCE between two QEMU guests, through two gateways and a long, lossy link. Some tests "
        "are run again with recovery off: they may not take a fifth longer with it.",
        epilog=f"Tests: {', '.join(scenes.NAMES)}. Exit code: 0 all passed, 1 some failed, 2 could not run.",
    )
    parser.add_argument(
        "--scene",
        action="append",
        choices=names,
        help="run only this scene; may be repeated. lr2, cached: these recovery modes at 1 %% loss; heavy: 5 %%; "
        "bursts; lans: loss on both LANs too; tunnel, tunnel-heavy: every frame in the tunnel over Ethernet, at 1 %% and 5 %%; tunnel-lans: with loss on the LANs and their repair; tunnel-udp, tunnel-udp-heavy: over UDP, in IPv4 and IPv6; tunnel-paths: over two paths, one of which goes silent; applications: NVMe and NFS over RDMA, netcat on RDMA's sockets, and "
        "what perftest has besides; slow-guests: 32 queue pairs both ways without loss; lives: gateways killed, queue pair numbers used again; rnic: lr2-check-rnic between the guests, no gateway",
    )
    parser.add_argument(
        "--only", action="append", choices=scenes.NAMES, metavar="TEST", help="run only this test; may be repeated"
    )
    parser.add_argument("--short", action="store_true", help="leave out cases that other scenes have in the same mode, or at the same loss, as scripts/test does without --long")
    parser.add_argument("--delay", type=quantities.as_written(quantities.time), default="10ms", help="one-way delay of the link [10ms]")
    parser.add_argument("--loss", type=quantities.share, help="share of frames lost on the long haul, each way [as the scene has it]")
    parser.add_argument("--rate", type=quantities.as_written(quantities.rate), default="1Gbps", help="rate of the link [1Gbps]")
    parser.add_argument("--seed", type=quantities.checked(int, lambda seed: seed >= 0, "a number of 0 or more"), default=1, help="seed of the losses [1]")
    parser.add_argument("--json", type=quantities.new_file, metavar="FILE", help="write the results there")
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and configurations")
    parser.add_argument(
        "--capture", action="store_true", help="capture both guests' RoCE headers, into the folder of --keep"
    )
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--guest", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--programs", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not _scenes(options):
        parser.error(f"no test {' or '.join(options.only or ['at all'])} in {' or '.join(options.scene or ['any scene'])}")
    return options


def _scenes(options: argparse.Namespace) -> list[Scene]:
    """The scenes to run, as the options select them."""
    chosen = []
    for scene in scenes.SCENES:
        setting = scene.setting
        if options.scene and setting.name not in options.scene:
            continue
        if options.loss is not None:
            setting = replace(setting, loss={**setting.loss, "wan": options.loss})
        if cases := [case for case in scene.cases if (not options.only or case.name in options.only) and not (options.short and case.only_long)]:
            chosen.append(Scene(setting, cases))
    return chosen


def _run(options: argparse.Namespace, folder: Path) -> Run:
    with Processes(folder) as processes:
        link = Link(folder, options.programs, LongHaul(options.rate, options.delay, options.seed))
        guests = [Guest(number, options.guest, processes, folder, link.netdev(number)) for number in (1, 2)]
        run = Run(_scenes(options), Bench(*guests, link), folder if options.capture else None)
        try:
            run.all()
        except (Failed, ProcessFailed, TimedOut, Ended) as error:
            say(f"FAIL {error}")
            run.results.append({"name": "run", "scene": "", "ok": False, "problems": [str(error)]})
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
    failed = [result for result in run.results if not result["ok"]]
    # Once more, behind all that passed.
    for result in failed:
        say(f"FAIL {result['name']} [{result['scene']}]: " + "\n     ".join(result["problems"]))
    verdict = "PASS" if run.ok else "FAIL"
    say(f"{verdict}: {len(run.results) - len(failed)} of {len(run.results)} passed, {seconds:.0f} s")
    if options.json:
        report = {
            "ok": run.ok,
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
