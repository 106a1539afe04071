"""clang-tidy with the list in .clang-tidy, over base and core; over all sources with --tidy-all."""

import json
import os
import re
import shutil
from dataclasses import dataclass

from cpp_source import closure_of
from tree import Findings, Stamps, Tree, Violation, in_parallel

_DEFAULT_FOLDERS = ("src/base/", "src/core/")
_DIAGNOSTIC = re.compile(
    r"^(?P<path>[^\s:]+):(?P<line>\d+):\d+: (?:warning|error): "
    r"(?P<what>.+?) \[(?P<name>[\w.,-]+)\]$",
    re.MULTILINE,
)
# The compile commands are g++'s; clang may know other warnings.
_EXTRA = [
    "--extra-arg=-Wno-unknown-warning-option",
    "--extra-arg=-Wno-error",
    "--extra-arg=-Wthread-safety",
]
# GoogleTest's TEST makes a global.
_EXTRA_FOR_TESTS = ["--checks=-cppcoreguidelines-avoid-non-const-global-variables"]


@dataclass(frozen=True)
class Compilation:
    command: str
    folder: str  # where it runs, which relative paths in diagnostics start from


def _sources(tree: Tree) -> dict[str, Compilation]:
    """Compiled files to look at, by path. Tests are left to --tidy-all: the test framework's
    macros make them slow to analyse."""
    tracked = set(tree.files)
    compilations = {}
    for entry in json.loads((tree.build / "compile_commands.json").read_text()):
        path = entry["file"].removeprefix(f"{tree.root}/")
        is_wanted = tree.tidy_all or (
            path.startswith(_DEFAULT_FOLDERS) and not path.endswith("_test.cc")
        )
        if path in tracked and is_wanted:
            compilations[path] = Compilation(entry["command"], entry["directory"])
    return compilations


def _violation(tree: Tree, compilation: Compilation, diagnostic: re.Match) -> Violation:
    file = os.path.join(compilation.folder, diagnostic["path"])
    what = f"{diagnostic['what']} ({diagnostic['name']})"
    remedy = "Follow the advice, or NOLINT(name) with the reason"
    return Violation(os.path.relpath(file, tree.root), int(diagnostic["line"]), what, remedy)


def check_tidy(tree: Tree) -> Findings:
    findings = Findings()
    if not shutil.which("clang-tidy"):
        findings.skipped = "clang-tidy is missing; run scripts/install-deps"
        return findings
    if not (tree.build / "compile_commands.json").exists():
        findings.skipped = f"no compile_commands.json in {tree.build}; `make build` first"
        return findings
    compilations = _sources(tree)
    rules = tree.text(".clang-tidy") + tree.run(["clang-tidy", "--version"]).stdout

    def violations_in(path: str) -> list[Violation]:
        compilation = compilations[path]
        extra = _EXTRA + (_EXTRA_FOR_TESTS if path.endswith("_test.cc") else [])
        texts = map(tree.text, closure_of(tree, path))
        key = Stamps.key(["tidy", rules, compilation.command, *extra, *texts])
        if tree.stamps.has(key):
            return []
        command = ["clang-tidy", "--quiet", "-p", str(tree.build), *extra]
        result = tree.run([*command, str(tree.root / path)])
        found = [
            _violation(tree, compilation, match) for match in _DIAGNOSTIC.finditer(result.stdout)
        ]
        if result.returncode != 0 and not found:
            found = [
                Violation(
                    path,
                    1,
                    f"clang-tidy failed: {result.stderr.strip()[-200:]}",
                    "Look at its output",
                )
            ]
        if not found:
            tree.stamps.put(key)
        return found

    files = sorted(compilations)
    # A header's violation shows once, however many files include it.
    findings.violations = sorted(
        {violation for found in in_parallel(violations_in, files) for violation in found}
    )
    return findings
