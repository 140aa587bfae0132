"""`python3 -m checks`; scripts/test prepares the machine for it."""

import argparse
import os
import sys
import time

from lr2run import Ended, RunDir, tidy_end

from .runner import Runner
from .slowest import table as slowest_tests
from .steps import LONG, TARGET_S, Step, all_steps

_PATIENCE_LONG = 6
"""Factor of all limits with --long."""


def _options(steps: list[Step]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/test",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Runs all steps, or those named, in this order:\n\n"
        + "\n".join(f"  {step.name:<12} {step.what}" for step in steps),
        epilog="Exit code: 0 all passed, 1 some failed, 2 could not run.",
    )
    parser.add_argument("steps", nargs="*", metavar="STEP", help="run only these")
    parser.add_argument("--quick", action="store_true", help=f"all but {', '.join(LONG)}, and in unit all but the crates tests, simulator and benches")
    parser.add_argument("--long", action="store_true", help="more seeds and cases: 3,000 seeds of each adverse network, all cases of rdma-e2e, all restarts of two-pairs, more inputs of fuzz; sets LR2_LONG=1 for the steps")
    parser.add_argument("--keep-going", action="store_true", help="run later steps too when one has failed")
    parser.add_argument("--verbose", action="store_true", help="show what every step prints")
    parser.add_argument("--limit", type=int, metavar="MINUTES", help="give up after so many minutes [80; with --long 240]")
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = [step.name for step in steps]
    if unknown := [name for name in options.steps if name not in names]:
        parser.error(f"no step {', '.join(unknown)}; the steps are {', '.join(names)}")
    if options.limit is None:
        options.limit = 240 if options.long else 80
    if options.limit < 1:
        parser.error(f"--limit {options.limit}: give at least one minute")
    return options


def _chosen(options: argparse.Namespace, steps: list[Step]) -> list[Step]:
    return [
        step
        for step in steps
        if (not options.steps or step.name in options.steps) and not (options.quick and step.name in LONG)
    ]


def _run(runner: Runner, steps: list[Step], keep_going: bool) -> None:
    failed_at = None
    for step in steps:
        if failed_at is not None and step.stage > failed_at and not keep_going:
            runner.skip(step, "an earlier step failed (--keep-going)")
            continue
        for later in steps:
            if later.beside == step.name:
                runner.begin(later)
        if runner.run(step).word == "FAIL" and failed_at is None:
            failed_at = step.stage


def main() -> int:
    steps = all_steps()
    options = _options(steps)
    if options.check:
        return 0
    if options.long:
        os.environ["LR2_LONG"] = "1"
    chosen = _chosen(options, all_steps(options.long, options.quick))
    is_default = not options.steps and not options.long
    start = time.monotonic()
    try:
        with tidy_end(options.limit * 60 + 60), RunDir("lr2-test") as run:
            runner = Runner(run.path, options.verbose, options.limit * 60, _PATIENCE_LONG if options.long else 1, is_default)
            with runner:
                _run(runner, chosen, options.keep_going)
            run.keep = runner.failed
            slowest = slowest_tests([run.path / f"{step.name}.log" for step in chosen])
    except Ended as error:
        print(f"scripts/test: {error}", file=sys.stderr)
        return error.exit_code
    if len(chosen) > 1:
        print("\n" + "\n".join(map(str, runner.verdicts)) + f"\n{slowest}")
    passed = sum(verdict.word == "PASS" for verdict in runner.verdicts)
    word = "FAIL" if runner.failed else "PASS"
    target = f"; the target is {TARGET_S} s on two cores" if is_default and not options.quick else ""
    print(f"{word}: {passed} of {len(chosen)} steps passed, {time.monotonic() - start:.0f} s{target}")
    return 1 if runner.failed else 0


if __name__ == "__main__":
    sys.exit(main())
