#!/usr/bin/env python3
"""Goal: `pace sim` says what a user can reckon by hand, and names what it does not use. Method: the program itself.

One case: test_sim.py --pace PATH CASE
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

INPUTS = Path(__file__).parent / "sim"
CLUSTER, JOBS = str(INPUTS / "cluster.yaml"), str(INPUTS / "jobs.csv")
LIMIT_S = 20


def expect(condition: bool, text: str) -> None:
    if not condition:
        sys.exit(f"FAILED: {text}")


def sim(pace: str, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run([pace, "sim", *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    return done.returncode, done.stdout, done.stderr


def outcome(pace: str, *arguments: str) -> dict:
    code, out, err = sim(pace, CLUSTER, JOBS, "-o", "json", *arguments)
    expect(code == 0, f"exit code {code}: {err}")
    return json.loads(out)


def figures(pace: str) -> None:
    """`wide` needs every GPU: with FIFO all of its queue wait behind it, with a reservation it starts when `long` ends."""
    result = outcome(pace, "--policy", "easy,fifo")
    easy, fifo = result["policies"]
    expect(easy["jobs_ended"] == fifo["jobs_ended"] == 5, "five jobs can run")
    # `small` (1 GPU, ends at 720 s) and `half` fit in front of the reservation at 3,600 s; `later` does not.
    expect(easy["sizes"][-1]["wait_s"]["max"] == 3540, f"wide waits from 60 to 3,600 s: {easy['sizes']}")
    expect(easy["sizes"][0]["wait_s"]["max"] == 0, "half is in nobody's way")
    expect(fifo["sizes"][0]["wait_s"]["max"] > 3000, "with FIFO half waits behind wide")


def named(pace: str) -> None:
    """What is not used is named by line, never dropped in silence."""
    result = outcome(pace)
    policy = result["policies"][0]
    expect([row["line"] for row in result["bad_rows"]] == [7], f"{result['bad_rows']}")
    expect([row["line"] for row in policy["refused"]] == [8], f"{policy['refused']}")
    never = {row["line"]: row["reason"] for row in policy["never_ran"]}
    expect(set(never) == {9, 10}, f"{never}")
    expect("the largest cluster (cluster) holds 4 of 8 pods" in never[9], never[9])
    expect("limit of queue product is 16 GPUs, it needs 24" in never[10], never[10])
    _, table, _ = sim(pace, CLUSTER, JOBS)
    expect("line 7: duration_s is 'ten'" in table, table)


def same_again(pace: str) -> None:
    runs = [outcome(pace, "--policy", "default,pass,sjf", "--estimates", "perfect")["policies"] for _ in range(2)]
    expect([run["digest"] for run in runs[0]] == [run["digest"] for run in runs[1]], "digests differ")


def refused(pace: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        broken = Path(folder) / "broken.yaml"
        broken.write_text("nodes:\n  - gpu: 8\n", encoding="utf-8")
        for arguments, part in (
            ((str(broken), JOBS), "line 2: unknown key 'gpu'"),
            ((CLUSTER, CLUSTER), "no header of a known trace"),
            ((CLUSTER, "nowhere.csv"), "cannot read nowhere.csv"),
            ((CLUSTER, JOBS, "--policy", "magic"), "magic"),
            ((CLUSTER, JOBS, "--from", "soon"), "'soon' is no time"),
        ):
            code, _, err = sim(pace, *arguments)
            expect(code == 64 and part in err and err.count("\n") == 1, f"{arguments}: {code} {err}")


def main() -> None:
    cases = {"figures": figures, "named": named, "same_again": same_again, "refused": refused}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pace", required=True)
    parser.add_argument("case", choices=cases)
    options = parser.parse_args()
    cases[options.case](options.pace)


if __name__ == "__main__":
    main()
