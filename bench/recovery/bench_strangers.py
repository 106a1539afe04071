#!/usr/bin/env python3
"""What strangers on a job's ports disturb: nothing.

While workload W trains, connections with random bytes arrive at the ports of its ranks and at its controller: some say
nothing, some begin as a frame of ours would, some stay open, some are reset. The run must end with the bits of an
undisturbed one, without an incident.

  bench/recovery/bench_strangers.py --pace build/release/bin/pace --connects 1000 --out strangers.json
"""

import argparse
import collections
import random
import socket
import struct
import sys
from pathlib import Path

import figures
import flags
import launch
import machine
from bench_recovery import reference_digest
from workload import Workload

PER_STEP = 3  # connects for each step of the run, on average
PATIENCE_S = 0.2  # of one connect
MAX_HELD = 50  # strangers that say no more and do not hang up
LISTENING = "0A"  # state of a socket, in /proc/net/tcp


def inodes_of(process: int) -> set[str]:
    found = set()
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        try:
            target = descriptor.readlink().name
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(target[len("socket:["):-1])
    return found


def addresses(mark: str) -> list[tuple[int, object]]:
    """Where processes with the mark listen: family and address."""
    inodes: set[str] = set()
    for process in launch.processes_with(mark):
        try:
            inodes |= inodes_of(process)
        except OSError:
            continue
    found: list[tuple[int, object]] = []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == LISTENING and fields[9] in inodes:
            host, port = fields[1].split(":")
            found.append((socket.AF_INET, (socket.inet_ntoa(struct.pack("<I", int(host, 16))), int(port, 16))))
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if len(fields) == 8 and fields[6] in inodes and fields[7].startswith("@paceline"):
            found.append((socket.AF_UNIX, "\0" + fields[7][1:]))
    return sorted(set(found), key=str)


class Strangers:
    def __init__(self, seed: int, connects: int):
        self.random = random.Random(seed)
        self.left = connects
        self.held: collections.deque[socket.socket] = collections.deque()
        self.counts: collections.Counter[str] = collections.Counter()

    def garbage(self) -> bytes:
        size = self.random.choice((0, 1, 7, 64, 500, 70_000))
        beginning = self.random.choice((b"", b"PACE", b"ECAP", b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
        return beginning + self.random.randbytes(size)

    def connect(self, where: tuple[int, object]) -> None:
        self.left -= 1
        stranger = socket.socket(where[0], socket.SOCK_STREAM)
        stranger.settimeout(PATIENCE_S)
        try:
            stranger.connect(where[1])
            self.counts["to ranks" if where[0] == socket.AF_INET else "to the controller"] += 1
            stranger.sendall(self.garbage())
        except OSError:
            self.counts["refused or cut off"] += 1
        end = self.random.choice(("close", "reset", "hold"))
        if end == "reset" and where[0] == socket.AF_INET:
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if end != "hold":
            stranger.close()
            return
        self.held.append(stranger)
        if len(self.held) > MAX_HELD:
            self.held.popleft().close()

    def visit(self, mark: str, count: int) -> None:
        found = addresses(mark)
        for _ in range(min(count, self.left) if found else 0):
            self.connect(self.random.choice(found))


def parsed_arguments() -> argparse.Namespace:
    parser = flags.parser(__doc__, "--pace", "--out", "--seed")
    parser.add_argument("--connects", type=int, default=1000)
    return parser.parse_args()


def problems_of(run: launch.Run, strangers: Strangers, digest: str) -> list[str]:
    if not run.is_completed:
        return [f"not completed, code {run.code}:\n{run.output[-3000:]}"]
    problems = [f"left behind: {what}" for what in run.left_behind]
    if strangers.left > 0:
        problems.append(f"{strangers.left} strangers came too late")
    if run.report["state_digest"] != digest:
        problems.append(f"digest {run.report['state_digest']}, not {digest}")
    return problems + [f"incident {incident['kind']}: {incident['evidence']}" for incident in run.report["incidents"]]


def main() -> int:
    launch.end_in_order()
    arguments = parsed_arguments()
    workload = Workload(pace=arguments.pace.resolve(), spare_hosts=0)
    steps = 60 + arguments.connects // PER_STEP
    host = machine.described()
    print(f"seed {arguments.seed}, {arguments.connects} strangers, {steps} steps", flush=True)
    digest = reference_digest(workload, steps)
    strangers = Strangers(arguments.seed, arguments.connects)
    per_visit = max(1, round(PER_STEP * 0.1 / workload.step_s))
    run = launch.run(lambda folder: workload.command(folder / "report", steps), 120 + steps,
                     lambda process, mark: strangers.visit(mark, per_visit))
    problems = problems_of(run, strangers, digest)
    step_ms = figures.summary([turn["step_ms"] for turn in run.turns[1:]])
    print(", ".join(f"{count} {what}" for what, count in sorted(strangers.counts.items())))
    print(f"step p50 {figures.text_of(step_ms['p50'])} ms, p99 {figures.text_of(step_ms['p99'])} ms, "
          f"max {figures.text_of(step_ms['max'])} ms")
    for problem in problems:
        print(f"PROBLEM {problem}")
    if arguments.out:
        figures.write_json(arguments.out, {
            "machine": host, "seed": arguments.seed, "workload": workload.described(), "connects": strangers.counts,
            "step_ms": step_ms, "problems": problems})
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
