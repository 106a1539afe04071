"""Starts `pace run` in a folder of its own, waits for its end within a limit, and looks for what it left behind."""

import contextlib
import csv
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MARK = "PACELINE_BENCH_MARK"  # in the environment of all that a run starts: finds what is left of it
GRACE_S = 3  # for the last processes of a run that has ended


@dataclasses.dataclass
class Run:
    code: int | None  # None: not finished within the limit
    wall_s: float
    report: dict
    turns: list[dict]  # steps.csv, as numbers
    output: str
    left_behind: list[str]

    @property
    def is_completed(self) -> bool:
        return self.code == 0 and self.report.get("verdict") == "completed"


def processes_with(mark: str) -> dict[int, str]:
    """Living processes with the mark in their environment, and their command lines."""
    found = {}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            if f"{MARK}={mark}".encode() not in (process / "environ").read_bytes().split(b"\0"):
                continue
            if (process / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                found[int(process.name)] = (process / "cmdline").read_text().replace("\0", " ").strip()
        except OSError:
            continue
    return found


def shared_memory_of_paceline() -> set[str]:
    return {entry.name for entry in Path("/dev/shm").iterdir() if "pace" in entry.name}


def left_of(mark: str, folder: Path, shared_before: set[str]) -> list[str]:
    deadline = time.monotonic() + GRACE_S
    while (processes := processes_with(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return ([f"process {number}: {line[:200]}" for number, line in processes.items()] +
            [f"file {entry.name}" for entry in folder.glob("tmp/*")] +
            [f"/dev/shm/{name}" for name in shared_memory_of_paceline() - shared_before])


def numbers_of(path: Path) -> list[dict]:
    if not path.exists():
        return []
    with path.open() as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def end_in_order() -> None:
    """Makes SIGTERM an exception, so that runs and folders do not outlive the harness."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))


def run(command_in, limit_s: float, while_running=lambda process, mark: None,
        before_removal=lambda run, folder: None) -> Run:
    """`command_in(folder)` makes the command line, with its report in folder/report.

    `while_running(process, mark)` is called about ten times a second; `before_removal(run, folder)` at the end.
    """
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as name:
        folder = Path(name)
        (folder / "tmp").mkdir()
        mark = f"{os.getpid()}-{time.monotonic_ns()}"
        shared_before = shared_memory_of_paceline()
        environment = os.environ | {MARK: mark, "NO_COLOR": "1", "TMPDIR": str(folder / "tmp")}
        began = time.monotonic()
        with (folder / "output").open("wb") as output:
            process = subprocess.Popen(command_in(folder), stdout=output, stderr=subprocess.STDOUT, env=environment,
                                       stdin=subprocess.DEVNULL, cwd=folder)
            try:
                code = wait(process, began + limit_s, lambda: while_running(process, mark))
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        wall_s = time.monotonic() - began
        # What is killed may leave its folder, which the next run removes.
        left_behind = left_of(mark, folder, shared_before) if code is not None else []
        for number in processes_with(mark):  # they would disturb the next run
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        report = folder / "report" / "report.json"
        ended = Run(code=code, wall_s=wall_s, report=json.loads(report.read_text()) if report.exists() else {},
                    turns=numbers_of(folder / "report" / "steps.csv"),
                    output=(folder / "output").read_text(errors="replace"), left_behind=left_behind)
        before_removal(ended, folder)
        return ended


def wait(process: subprocess.Popen, deadline: float, meanwhile) -> int | None:
    while time.monotonic() < deadline:
        try:
            return process.wait(timeout=0.1)
        except subprocess.TimeoutExpired:
            meanwhile()
    return None
