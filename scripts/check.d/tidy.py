"""clang-tidy with the list in .clang-tidy, over base and core; over everything that is compiled with --tidy-all."""

import json
import os
import re
import shutil
from dataclasses import dataclass

from cpp_source import closure_of
from tree import Findings, Stamps, Tree, Violation, in_parallel

_DEFAULT_FOLDERS = ("src/base/", "src/core/")
_DIAGNOSTIC = re.compile(r"^(?P<path>[^\s:]+):(?P<line>\d+):\d+: (?:warning|error): (?P<what>.+?) \[(?P<name>[\w.,-]+)\]$",
                         re.MULTILINE)
# The compile commands are g++'s; clang may know other warnings.
_EXTRA = ["--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-error"]


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
        is_wanted = tree.tidy_all or (path.startswith(_DEFAULT_FOLDERS) and not path.endswith("_test.cc"))
        if path in tracked and is_wanted:
            compilations[path] = Compilation(entry["command"], entry["directory"])
    return compilations


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
        key = Stamps.key(["tidy", rules, compilations[path].command, *map(tree.text, closure_of(tree, path))])
        if tree.stamps.has(key):
            return []
        result = tree.run(["clang-tidy", "--quiet", "-p", str(tree.build), *_EXTRA, str(tree.root / path)])
        found = [Violation(os.path.relpath(os.path.join(compilations[path].folder, match["path"]), tree.root), int(match["line"]),
                           f"{match['what']} ({match['name']})", "Follow the advice, or NOLINT(name) with the reason")
                 for match in _DIAGNOSTIC.finditer(result.stdout)]
        if result.returncode != 0 and not found:
            found = [Violation(path, 1, f"clang-tidy failed: {result.stderr.strip()[-200:]}", "Look at its output")]
        if not found:
            tree.stamps.put(key)
        return found

    files = sorted(compilations)
    # A header's violation shows once, however many files include it.
    findings.violations = sorted({violation for found in in_parallel(violations_in, files) for violation in found})
    return findings
