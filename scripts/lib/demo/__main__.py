"""`python3 -m demo`; scripts/demo prepares the machine for it."""

import json
import os
import sys
import time
from pathlib import Path

from lr2run import Ended, ProcessFailed, Processes, RunDir, TimedOut, hugepages, last_line, tidy_end

from . import options, table, topology
from .options import Scenario
from .result import Result, as_json
from .topology import Pass


def run_pass(scenario: Scenario, mode: str, spray: str | None, programs: Path, run: Path, huge: str) -> Result:
    live = table.LiveLine()
    title = table.title(mode, spray)
    live.show(table.progress(title, 0, None, None))
    with Processes(run) as processes:
        running = Pass(scenario, mode, programs, run, processes, huge, spray)
        total_s = scenario.warm_up + scenario.seconds
        deadline = time.monotonic() + running.limit_s
        while running.requester.alive:
            running.check()
            running.note_warm_up()
            if time.monotonic() > deadline:
                raise TimedOut(f"{running.requester.name}: not done after {running.limit_s:.0f} s:\n{running.requester.tail()}")
            live.show(table.progress(title, total_s, last_line(running.requester), last_line(running.wan)))
            time.sleep(0.2)
        result = Result.of(mode, spray, scenario, running.finish())
    for complaint in (*result.complaints(scenario), *result.remarks(scenario)):
        live.done(f"  {title}: {complaint}")
    live.done(table.progress(title, total_s, last_line(running.requester), last_line(running.wan)))
    return result


def run_all(scenario: Scenario, run: Path) -> list[Result]:
    programs = Path(os.environ["LR2_BIN"])
    results = []
    with hugepages(topology.total_bytes(scenario)) as enough:
        huge = "auto" if enough else "never"
        for mode, spray in scenario.passes:
            try:
                results.append(run_pass(scenario, mode, spray, programs, run, huge))
            except ProcessFailed as error:
                # Another program took the hugepages between a look and a grab.
                if huge == "never" or "Cannot init memory" not in str(error):
                    raise
                huge = "never"
                results.append(run_pass(scenario, mode, spray, programs, run, huge))
    return results


def main() -> int:
    scenario, check_only = options.parse()
    if check_only:
        return 0
    passes = len(scenario.passes)
    limit_s = passes * (scenario.seconds + 120)
    run_dir = RunDir("lr2-demo", keep=scenario.keep)
    print(table.headline(scenario), file=sys.stderr)
    try:
        with tidy_end(limit_s), run_dir as run:
            results = run_all(scenario, run.path)
    except (ProcessFailed, TimedOut, Ended) as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        if run_dir.keep:
            print(f"demo: logs are in {run_dir.path}", file=sys.stderr)
        return 1

    print()
    print(table.table(scenario, results))
    print(table.notes(scenario, results))
    if scenario.json:
        scenario.json.write_text(json.dumps(as_json(scenario, results), indent=2) + "\n")
    if scenario.keep:
        print(f"  Logs and reports: {run_dir.path}")
    complaints = [f"{result.title}: {complaint}" for result in results for complaint in result.complaints(scenario)]
    for complaint in complaints:
        print(f"demo: {complaint}", file=sys.stderr)
    if complaints:
        return 1
    remarks = [f"{result.title}: {remark}" for result in results for remark in result.remarks(scenario)]
    for remark in remarks:
        print(f"  The RNICs alone, {remark}.")
    print("  Every message of every other pass arrived intact." if remarks else "  Every message of every pass arrived intact.")
    if shortfall := results[0].shortfall(scenario):
        print(f"demo: {results[0].mode}: {shortfall}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
