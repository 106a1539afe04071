#!/usr/bin/env python3
"""How soon training goes on after a rank is killed: `pace run` and torchrun with DDP over gloo, in turns.

Both train on the same machine with the same number of ranks, the same timed wait for a step's compute, gradients and
state of the same size, and a checkpoint every 10 steps. A rank is killed while it computes; what counts is the time
until the first step that is done by those who are left or by those who were started again. The steps that torchrun
does again because its checkpoint is older are not in it; the second figure, until a step that had not been done
before, has them.

  bench/recovery/bench_torch.py --pace build/release/bin/pace --out torch.json
"""

import argparse
import contextlib
import dataclasses
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import figures
import flags
import launch
import machine
from workload import Workload

PEER = Path(__file__).resolve().parent / "torch_peer"
PYTHON = "/usr/bin/python3"  # Debian's, which python3-torch belongs to
CHECKPOINT_EVERY = 10
CALM_STEPS = 35  # between repair and the next kill: more than the 16 commits that limits are learned from
ENDLESS = 1_000_000
STEP_LIMIT_S = 300  # for any wait for steps; torch alone takes minutes to load on a crowded machine
END_LIMIT_S = 20
TORCHRUN_SETTINGS = ("--nnodes=1", "--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0", "--max_restarts=1000",
                     "--monitor_interval=0.1")
AIMED_AT = 10  # times the pace of the peer


@dataclasses.dataclass(frozen=True)
class Step:
    """A line about a step, when it was read, and under which membership the step was done."""

    at: float
    number: int
    membership: int


@dataclasses.dataclass(frozen=True)
class System:
    """One of the two that are compared."""

    name: str
    command_in: Callable[[Path], list[str]]  # by the folder of the run
    line: re.Pattern[bytes]  # number of the step, membership
    is_rank: Callable[[list[str]], bool]  # by command line
    full: Callable[[int], bool]  # all ranks are back, by membership


@dataclasses.dataclass
class Sample:
    next_step_ms: float  # from the kill to the first step under another membership
    new_step_ms: float  # to the first one that had not been done before
    steps_repeated: int


class Training:
    """A run under way: its steps as they are printed, and its ranks. Reads from a thread of its own."""

    def __init__(self, system: System, folder: Path):
        self.system = system
        self.mark = f"{os.getpid()}-{time.monotonic_ns()}"
        self.steps: list[Step] = []
        self.lines: list[bytes] = []
        self.has_ended = False
        self.changed = threading.Condition()
        environment = os.environ | {launch.MARK: self.mark, "NO_COLOR": "1", "TMPDIR": str(folder),
                                    "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(system.command_in(folder), env=environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            now = time.monotonic()
            with self.changed:
                self.lines.append(line)
                if match := self.system.line.search(line):
                    self.steps.append(Step(now, int(match.group(1)), int(match.group(2))))
                    self.changed.notify_all()
        with self.changed:
            self.has_ended = True
            self.changed.notify_all()

    def wait_for_step(self, wanted: Callable[[Step], bool], after: int = 0) -> int:
        """The place in `steps` of the first one from `after` on that is wanted."""
        deadline = time.monotonic() + STEP_LIMIT_S
        with self.changed:
            place = after
            while True:
                for place in range(place, len(self.steps)):
                    if wanted(self.steps[place]):
                        return place
                place = len(self.steps)
                left_s = deadline - time.monotonic()
                if self.has_ended or left_s <= 0 or not self.changed.wait(timeout=left_s):
                    raise SystemExit(f"{self.system.name}: {'has ended' if self.has_ended else 'no step in time'}; "
                                     "its last lines:\n" + b"".join(self.lines[-30:]).decode(errors="replace"))

    def ranks(self) -> list[int]:
        return sorted(number for number, line in launch.processes_with(self.mark).items()
                      if self.system.is_rank(line.split()))

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=END_LIMIT_S)
        if self.process.poll() is None:
            self.process.kill()
        for number in launch.processes_with(self.mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        self.process.wait()
        self.reader.join()


@contextlib.contextmanager
def training(system: System) -> Iterator[Training]:
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as name:
        run = Training(system, Path(name))
        try:
            yield run
        finally:
            run.end()


def kill_one(run: Training, random_numbers: random.Random, step_s: float) -> Sample:
    """Waits for a calm stretch, kills a rank in the first half of a step's compute, and waits for what follows."""
    first = run.wait_for_step(lambda step: run.system.full(step.membership), len(run.steps))
    run.wait_for_step(lambda step: step.number >= run.steps[first].number + CALM_STEPS, first)
    victim = random_numbers.choice(run.ranks())
    place = len(run.steps)
    before = run.steps[run.wait_for_step(lambda _: True, place)]
    time.sleep(random_numbers.uniform(0, step_s / 2))
    killed_at = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    next_step = run.wait_for_step(lambda step: step.membership != before.membership, place)
    highest = max(step.number for step in run.steps[:next_step])
    new_step = run.wait_for_step(lambda step: step.number > highest, next_step)
    return Sample(next_step_ms=(run.steps[next_step].at - killed_at) * 1e3,
                  new_step_ms=(run.steps[new_step].at - killed_at) * 1e3,
                  steps_repeated=highest + 1 - run.steps[next_step].number)


def paceline(workload: Workload) -> System:
    def command(folder: Path) -> list[str]:
        return workload.command(folder / "report", ENDLESS, flags=(
            "--checkpoint-dir", str(folder / "checkpoints"), "--checkpoint-every", str(CHECKPOINT_EVERY)))
    return System("paceline", command, re.compile(rb"emulated: step (\d+) of \d+, (\d+) ranks"),
                  lambda words: Path(words[0]).name == workload.trainer.name,
                  lambda membership: membership == workload.ranks)


def torchrun(workload: Workload) -> System:
    trainer = PEER / "trainer.py"

    def command(folder: Path) -> list[str]:
        return [PYTHON, str(PEER / "launcher.py"), *TORCHRUN_SETTINGS, f"--nproc_per_node={workload.ranks}",
                str(trainer), "--steps", str(ENDLESS), "--step-ms", str(workload.step_s * 1e3),
                "--gradient-mb", str(workload.gradient_mb), "--state-mb", str(workload.state_mb),
                "--checkpoint", str(folder / "checkpoint"), "--checkpoint-every", str(CHECKPOINT_EVERY)]
    return System("torchrun", command, re.compile(rb"step (\d+) of start (\d+)"),
                  lambda words: str(trainer) in words[1:3], lambda _membership: True)


def parsed_arguments() -> argparse.Namespace:
    parser = flags.parser(__doc__, "--pace", "--out", "--seed")
    parser.add_argument("--kills", type=int, default=10, help="of each of the two")
    parser.add_argument("--kills-per-run", type=int, default=2, help="before it is the other's turn")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--quick", action="store_true", help="two kills each: does it work at all?")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.kills = 2
    if subprocess.run([PYTHON, "-c", "import torch.distributed"], stderr=subprocess.DEVNULL).returncode != 0:
        raise SystemExit(f"{PYTHON} has no torch; run: scripts/install-deps --bench")
    return arguments


def print_result(samples: dict[str, list[Sample]]) -> float:
    rows: list[list[object]] = []
    for measure in ("next_step_ms", "new_step_ms", "steps_repeated"):
        for name, of_name in samples.items():
            values = [float(getattr(sample, measure)) for sample in of_name]
            rows.append([f"{measure} {name}", len(values), min(values), statistics.median(values), max(values)])
    figures.print_table(["", "kills", "min", "median", "max"], rows)
    medians = {name: statistics.median(sample.next_step_ms for sample in of_name)
               for name, of_name in samples.items()}
    ratio = medians["torchrun"] / medians["paceline"]
    print(f"kill to next step: {ratio:.1f} times sooner than torchrun, by medians (at least {AIMED_AT} is promised)")
    return ratio


def main() -> int:
    launch.end_in_order()
    arguments = parsed_arguments()
    workload = Workload(pace=arguments.pace.resolve(), hosts=arguments.ranks, ranks_per_host=1, spare_hosts=0,
                        micro_batches=8 * arguments.ranks, print_every=1)
    systems = [paceline(workload), torchrun(workload)]
    samples: dict[str, list[Sample]] = {system.name: [] for system in systems}
    random_numbers = random.Random(arguments.seed)
    host = machine.described()
    print(f"seed {arguments.seed}, {arguments.kills} kills each; load {host['load_before']}", flush=True)
    while len(samples["torchrun"]) < arguments.kills or len(samples["paceline"]) < arguments.kills:
        for system in systems:
            kills = min(arguments.kills_per_run, arguments.kills - len(samples[system.name]))
            with training(system) as run:
                for _ in range(kills):
                    sample = kill_one(run, random_numbers, workload.step_s)
                    samples[system.name].append(sample)
                    print(f"{system.name}: next step after {sample.next_step_ms:.0f} ms, a new one after "
                          f"{sample.new_step_ms:.0f} ms, {sample.steps_repeated} steps repeated", flush=True)
        systems.reverse()
        if arguments.out:
            figures.write_json(arguments.out, {
                "machine": host, "seed": arguments.seed, "workload": workload.described(),
                "checkpoint_every": CHECKPOINT_EVERY, "torchrun_settings": TORCHRUN_SETTINGS,
                "samples": {name: [dataclasses.asdict(sample) for sample in of_name]
                            for name, of_name in samples.items()}})
    return 0 if print_result(samples) >= AIMED_AT else 1


if __name__ == "__main__":
    sys.exit(main())
