"""clang-format agrees with every tracked C++ file."""

import re
import shutil

from tree import CPP_SUFFIXES, Findings, Tree, in_parallel

_WARNING = re.compile(r"^(?P<path>.+?):(?P<line>\d+):\d+: (?:warning|error): ", re.MULTILINE)


def check_format(tree: Tree) -> Findings:
    findings = Findings()
    if not shutil.which("clang-format"):
        findings.skipped = "clang-format is missing; run scripts/install-deps"
        return findings

    def first_difference(path: str) -> re.Match | None:
        return _WARNING.search(tree.run(["clang-format", "--dry-run", path]).stderr)

    files = tree.matching(CPP_SUFFIXES)
    for path, difference in zip(files, in_parallel(first_difference, files)):
        if difference:
            findings.add(
                path,
                int(difference["line"]),
                "the formatter would change this file, here first",
                "Run `make fmt`",
            )
    return findings
