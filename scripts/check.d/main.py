"""Runs the checks over the tracked files and prints one line per violation:

    path:line: what is wrong. How to put it right. [check]

Exit status: 0 when all hold, 1 when one does not, 64 for wrong usage. A check that lacks something
(a build, a tool) says so and counts as skipped, not as passed.
"""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Callable

from documents import check_links, check_machine_paths, check_names
from formatting import check_format
from headers import check_headers
from includes import check_includes
from modules import check_modules
from purity import check_purity
from shape import check_shape
from symbols import check_core_symbols, check_library_symbols
from tidy import check_tidy
from tree import Findings, Tree

CHECKS: dict[str, Callable[[Tree], Findings]] = {
    "format": check_format,
    "includes": check_includes,
    "modules": check_modules,
    "purity": check_purity,
    "shape": check_shape,
    "links": check_links,
    "names": check_names,
    "paths": check_machine_paths,
    "core-symbols": check_core_symbols,
    "library": check_library_symbols,
    "headers": check_headers,
    "tidy": check_tidy,
}


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/check",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "checks",
        nargs="*",
        metavar="CHECK",
        help=f"run only these ({', '.join(CHECKS)}); default: all",
    )
    parser.add_argument(
        "--tidy-all",
        action="store_true",
        help="clang-tidy over the whole tree, not only src/base and src/core",
    )
    parser.add_argument(
        "--build", type=Path, metavar="DIR", help="build tree to look at (default: build/release)"
    )
    parser.add_argument(
        "--root",
        type=Path,
        metavar="DIR",
        default=Path(__file__).parents[2],
        help="source tree to check (default: this one)",
    )
    options = parser.parse_args(arguments)
    unknown = [name for name in options.checks if name not in CHECKS]
    if unknown:
        print(
            f"scripts/check: no check named {unknown[0]}; there are: {', '.join(CHECKS)}",
            file=sys.stderr,
        )
        sys.exit(os.EX_USAGE)
    return options


def main(arguments: list[str]) -> int:
    options = parse_arguments(arguments)
    tree = Tree(options.root, options.build, tidy_all=options.tidy_all)
    violation_count = 0
    for name in options.checks or CHECKS:
        started_s = time.monotonic()
        findings = CHECKS[name](tree)
        for violation in findings.violations:
            print(
                f"{violation.path}:{violation.line}: {violation.what}. {violation.remedy}. [{name}]"
            )
        for note in findings.notes:
            print(f"check {name}: note: {note}")
        violation_count += len(findings.violations)
        verdict = f"{len(findings.violations)} violations" if findings.violations else "ok"
        if findings.skipped:
            verdict = f"SKIPPED: {findings.skipped}"
        print(f"check {name}: {verdict} ({time.monotonic() - started_s:.1f} s)", flush=True)
    print(f"check: {violation_count} violations" if violation_count else "check: no violations")
    return 1 if violation_count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
