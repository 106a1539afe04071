#!/usr/bin/env python3
"""What Paceline costs a training that computes all the time.

`gpt` runs under `pace run` and, right before or after, on a null runtime: a libpaceline with the same micro-batches, the
same rounding and the same ring, but no agent, controller, vote or record. Reported are the ratio of their paces with its
95 % interval, the processor time of controller and agents against that of the ranks, and what a step with nothing in it
costs more than on the null runtime, which is the vote, the records and the changes of thread.

The vote alone is measured by doing it twice: a barrier is the same exchange of messages over the same connections, so a
step with one costs a vote more. On fewer cores than ranks its messages wait for each other's processes; with two ranks
they do not, and the three rounds of 8 ranks take three times as long as the one round of two.

  bench/recovery/bench_cost.py --pace build/release/bin/pace --out cost.json
"""

import argparse
import contextlib
import dataclasses
import math
import os
import re
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

import figures
import flags
import launch
import machine

STUDENT_95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 8: 2.36, 10: 2.26, 15: 2.14, 20: 2.09, 30: 2.05}
RANKS_OF_VOTE = 8
ROUNDS_OF_VOTE = 3  # each rank tells another one as many times as 8 is doubled from 1
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
STEP_LINE = re.compile(rb"step (\d+)")


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    ranks: int
    micro_batches: int
    arguments: tuple[str, ...]
    steps: int
    print_every: int

    def command(self, folder: Path) -> list[str]:
        flag = "--eval-every" if self.name == "gpt" else "--print-every"
        return [str(folder / self.name), "--steps", str(self.steps), flag, str(self.print_every), *self.arguments]


@dataclasses.dataclass
class Measured:
    """A run: its pace between two of its lines about a step, and who used the processors meanwhile."""

    steps_per_s: float
    steps: int
    cpu_s: dict[str, float]  # by verb of `pace`, and `ranks`


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


class Accounts:
    """Processor time of each process of a run, from the first look to the last: its start is not in it."""

    def __init__(self) -> None:
        self.looks: list[dict[tuple[str, int], float]] = []  # by role and process

    def look(self, mark: str) -> None:
        seen: dict[tuple[str, int], float] = {}
        for process, line in launch.processes_with(mark).items():
            words = line.split()
            role = words[1] if len(words) > 1 and Path(words[0]).name == "pace" else "ranks"
            with contextlib.suppress(OSError):
                seen[role, process] = cpu_seconds(process)
        self.looks.append(seen)

    def totals(self, first: int, last: int) -> dict[str, float]:
        totals: dict[str, float] = {}
        for (role, process), seconds in self.looks[last].items():
            totals[role] = totals.get(role, 0) + seconds - self.looks[first].get((role, process), 0)
        return totals


def measured(process: subprocess.Popen, mark: str, limit_s: float) -> Measured:
    """From the first line about a step to the last but one: when the last arrives, some ranks have ended."""
    accounts = Accounts()
    deadline = time.monotonic() + limit_s
    seen: list[tuple[int, float]] = []
    lines: list[bytes] = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if time.monotonic() > deadline:
            process.kill()
            break
        if (match := STEP_LINE.search(line)) and b"fault" not in line:
            seen.append((int(match.group(1)), time.monotonic()))
            accounts.look(mark)
    process.wait()
    if process.returncode != 0 or len(seen) < 3:
        raise SystemExit(f"failed with code {process.returncode}:\n{b''.join(lines[-20:]).decode(errors='replace')}")
    (first, began), (last, ended) = seen[0], seen[-2]
    return Measured((last - first) / (ended - began), last - first, accounts.totals(0, -2))


def with_paceline(program: Program, pace: Path, limit_s: float) -> Measured:
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    process = subprocess.Popen([str(pace), "run", "--local", str(program.ranks), "--micro-batches",
                                str(program.micro_batches), "--", *program.command(pace.parent)],
                               env=os.environ | {launch.MARK: mark, "NO_COLOR": "1"}, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return measured(process, mark, limit_s)


def ring_of_sockets(count: int) -> list[tuple[socket.socket, socket.socket]]:
    """For each member, its connection to the next one and the one from the member before it."""
    to_next, from_previous = [], []
    for _ in range(count):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            to_next.append(socket.create_connection(listener.getsockname()))
            from_previous.append(listener.accept()[0])
    for connection in to_next + from_previous:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return [(to_next[i], from_previous[i - 1]) for i in range(count)]


def with_nothing(program: Program, pace: Path, library: Path, limit_s: float) -> Measured:
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    links = ring_of_sockets(program.ranks)
    processes = []
    for rank, (to_next, from_previous) in enumerate(links):
        environment = os.environ | {
            launch.MARK: mark, "LD_LIBRARY_PATH": str(library.parent), "PACELINE_NULL_RANK": str(rank),
            "PACELINE_NULL_RANKS": str(program.ranks), "PACELINE_NULL_NEXT": str(to_next.fileno()),
            "PACELINE_NULL_PREVIOUS": str(from_previous.fileno()),
            "PACELINE_MICRO_BATCHES": str(program.micro_batches),
            # As the agent sets it for a rank: four ranks that each use all cores would stand in each other's way.
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        processes.append(subprocess.Popen(program.command(pace.parent), env=environment, stdin=subprocess.DEVNULL,
                                          pass_fds=(to_next.fileno(), from_previous.fileno()),
                                          stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL))
    for pair in links:
        for connection in pair:
            connection.close()
    try:
        return measured(processes[0], mark, limit_s)
    finally:
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)
            process.kill()
            process.wait()


def interval_95(values: list[float]) -> tuple[float, float]:
    mean = statistics.mean(values)
    if len(values) < 2:
        return mean, mean
    factor = STUDENT_95[max(count for count in STUDENT_95 if count <= len(values))]
    half = factor * statistics.stdev(values) / math.sqrt(len(values))
    return mean - half, mean + half


@dataclasses.dataclass
class Pairs:
    with_paceline: list[Measured] = dataclasses.field(default_factory=list)
    with_nothing: list[Measured] = dataclasses.field(default_factory=list)

    def add(self, program: Program, arguments: argparse.Namespace, is_paceline_first: bool) -> None:
        for is_paceline in (is_paceline_first, not is_paceline_first):
            if is_paceline:
                self.with_paceline.append(with_paceline(program, arguments.pace, arguments.limit_s))
            else:
                self.with_nothing.append(with_nothing(program, arguments.pace, arguments.null, arguments.limit_s))

    def ratios(self) -> list[float]:
        return [ours.steps_per_s / null.steps_per_s for ours, null in zip(self.with_paceline, self.with_nothing)]

    def rank_cpu_ratios(self) -> list[float]:
        """Processor time of the ranks for one step, against the null runtime: other load disturbs it less than the pace."""
        return [(ours.cpu_s["ranks"] / ours.steps) / (null.cpu_s["ranks"] / null.steps)
                for ours, null in zip(self.with_paceline, self.with_nothing)]

    def added_us(self) -> list[float]:
        return [1e6 / ours.steps_per_s - 1e6 / null.steps_per_s
                for ours, null in zip(self.with_paceline, self.with_nothing)]

    def cpu_parts(self) -> dict[str, float]:
        """Processor time of the daemons as a part of that of the ranks."""
        totals: dict[str, float] = {}
        for run in self.with_paceline:
            for role, seconds in run.cpu_s.items():
                totals[role] = totals.get(role, 0) + seconds
        ranks = totals.pop("ranks")
        return {role: seconds / ranks for role, seconds in totals.items()}

    def described(self) -> dict:
        return {"with_paceline": [dataclasses.asdict(run) for run in self.with_paceline],
                "with_nothing": [dataclasses.asdict(run) for run in self.with_nothing]}


def vote_us(empty: Program, arguments: argparse.Namespace, ranks: int) -> float:
    """What a further exchange between all members adds to a step. The two runs follow each other."""
    base = dataclasses.replace(empty, ranks=ranks, micro_batches=ranks)
    doubled = dataclasses.replace(base, arguments=(*base.arguments, "--evaluate-every", "1", "--evaluate-ms", "0"))
    once, twice = (with_paceline(program, arguments.pace, arguments.limit_s) for program in (base, doubled))
    return 1e6 / twice.steps_per_s - 1e6 / once.steps_per_s


def parsed_arguments() -> argparse.Namespace:
    parser = flags.parser(__doc__, "--pace", "--out")
    parser.add_argument("--null", type=Path, help="the null runtime (default: ../lib/null/libpaceline.so)")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--micro-batches", type=int, default=16)
    parser.add_argument("--vote-pairs", type=int, default=5, help="of the first so many pairs, the vote too")
    parser.add_argument("--steps", type=int, default=300, help="of gpt; about 30 s on two cores")
    parser.add_argument("--empty-steps", type=int, default=3000, help="of the emulated trainer, for the vote")
    parser.add_argument("--limit-s", type=float, default=300, help="of one run")
    arguments = parser.parse_args()
    arguments.pace = arguments.pace.resolve()
    arguments.null = (arguments.null or arguments.pace.parent.parent / "lib/null/libpaceline.so").resolve()
    if not arguments.null.exists():
        raise SystemExit(f"no null runtime at {arguments.null}; build the target null_runtime")
    return arguments


def print_votes(votes: dict[int, list[float]]) -> None:
    for ranks, samples in votes.items():
        low, high = interval_95(samples)
        print(f"a vote of {ranks} ranks on {len(os.sched_getaffinity(0))} cores takes {statistics.median(samples):.0f} us in the "
              f"median, 95 % interval of the mean {low:.0f} to {high:.0f}")
    print(f"so with a core for each of {RANKS_OF_VOTE} ranks ({ROUNDS_OF_VOTE} rounds): "
          f"{ROUNDS_OF_VOTE * statistics.median(votes[2]):.0f} us")


def main() -> int:
    launch.end_in_order()
    arguments = parsed_arguments()
    gpt = Program("gpt", arguments.ranks, arguments.micro_batches, (), arguments.steps, max(1, arguments.steps // 10))
    # Nothing but the step itself: eight micro-batches of a few kilobytes that take no time.
    empty = Program("emulated", RANKS_OF_VOTE, RANKS_OF_VOTE, ("--micro-batch-ms", "0", "--gradient-mb", "0.004", "--state-mb", "0.1",
                                       "--buckets", "1"), arguments.empty_steps, max(1, arguments.empty_steps // 6))
    host = machine.described()
    full, steps = Pairs(), Pairs()
    votes: dict[int, list[float]] = {RANKS_OF_VOTE: [], 2: []}
    for number in range(arguments.pairs):
        full.add(gpt, arguments, is_paceline_first=number % 2 == 0)
        print(f"pair {number + 1}: gpt {full.with_paceline[-1].steps_per_s:.3f} against "
              f"{full.with_nothing[-1].steps_per_s:.3f} steps/s ({full.ratios()[-1]:.4f}); daemons "
              f"{sum(full.cpu_parts().values()):.2%} of the ranks' processor time", flush=True)
        if number < arguments.vote_pairs:
            steps.add(empty, arguments, is_paceline_first=number % 2 == 0)
            for ranks, samples in votes.items():
                samples.append(vote_us(empty, arguments, ranks))
            print(f"  an empty step takes {steps.added_us()[-1]:.0f} us more, a vote {votes[RANKS_OF_VOTE][-1]:.0f} us",
                  flush=True)
        if arguments.out:
            figures.write_json(arguments.out, {
                "machine": host, "load": "idle", "gpt": full.described(), "empty": steps.described(),
                "ratio_95": interval_95(full.ratios()), "cpu_parts": full.cpu_parts(),
                "rank_cpu_ratio_95": interval_95(full.rank_cpu_ratios()),
                "added_us_95": interval_95(steps.added_us()) if steps.with_paceline else None, "vote_us": votes})
    low, high = interval_95(full.ratios())
    print(f"pace against the null runtime: {statistics.mean(full.ratios()):.4f}, 95 % interval {low:.4f} to {high:.4f}")
    print("processor time against that of the ranks: " +
          ", ".join(f"{role} {part:.2%}" for role, part in sorted(full.cpu_parts().items())))
    low, high = interval_95(full.rank_cpu_ratios())
    print(f"processor time of the ranks for a step against the null runtime: {statistics.mean(full.rank_cpu_ratios()):.4f}, "
          f"95 % interval {low:.4f} to {high:.4f}")
    if not steps.with_paceline:
        return 0
    low, high = interval_95(steps.added_us())
    print(f"a step of 8 ranks takes {statistics.mean(steps.added_us()):.0f} us more, 95 % interval {low:.0f} to {high:.0f}")
    print_votes(votes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
