"""What every check works on: the tracked files, the build tree, and the findings."""

import hashlib
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
import os
from typing import Callable, Iterable, TypeVar

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

CPP_SUFFIXES = (".cc", ".h", ".hpp")
HEADER_SUFFIXES = (".h", ".hpp")


@dataclass(frozen=True, order=True)
class Violation:
    path: str  # relative to the root of the tree
    line: int
    what: str
    remedy: str


@dataclass
class Findings:
    violations: list[Violation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    skipped: str = ""  # why the check could not run at all

    def add(self, path: str, line: int, what: str, remedy: str) -> None:
        self.violations.append(Violation(path, line, what, remedy))


class Tree:
    """A source tree. Tracked files only, so that scratch files do not fail a check. In a tree that
    is no git repository (a release archive) every file counts, but for build/."""

    def __init__(self, root: Path, build: Path | None = None, tidy_all: bool = False):
        self.root = root.resolve()
        self.build = build.resolve() if build else self.root / "build/release"
        self.tidy_all = tidy_all

    @cached_property
    def files(self) -> list[str]:
        """Paths relative to the root, sorted."""
        if (self.root / ".git").exists():
            listed = subprocess.run(
                ["git", "ls-files", "-z"],
                cwd=self.root,
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            ).stdout.split("\0")
        else:
            listed = [str(path.relative_to(self.root)) for path in self.root.rglob("*")]
        return sorted(
            {
                path
                for path in listed
                if path and not path.startswith("build/") and (self.root / path).is_file()
            }
        )

    def matching(self, suffixes: tuple[str, ...], folders: tuple[str, ...] = ("",)) -> list[str]:
        return [path for path in self.files if path.endswith(suffixes) and path.startswith(folders)]

    def text(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8", errors="replace")

    def run(self, command: list[str], stdin: str = "") -> subprocess.CompletedProcess:
        """Runs a tool in the root of the tree. Its failure is for the caller to judge."""
        return subprocess.run(
            command,
            cwd=self.root,
            input=stdin,
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=600,
            check=False,
        )

    @cached_property
    def stamps(self) -> "Stamps":
        return Stamps(self.root / "build/check")


class Stamps:
    """Remembers, by a hash of all that the verdict depends on, that something has passed, so that
    a repeated run is quick. Failures are not remembered."""

    def __init__(self, folder: Path):
        self.folder = folder

    @staticmethod
    def key(parts: Iterable[str]) -> str:
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part.encode() + b"\0")
        return digest.hexdigest()

    def has(self, key: str) -> bool:
        return (self.folder / key).exists()

    def put(self, key: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / key).touch()


def in_parallel(function: Callable[[Item], Outcome], items: list[Item]) -> list[Outcome]:
    """Calls `function` for each item, one per core at a time; outcomes in the items' order."""
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        return list(pool.map(function, items))
