"""Every header compiles alone, and twice in a row. The C ABI compiles as C, too."""

import json
import shutil

from cpp_source import INCLUDE_ROOTS, closure_of, includes_of
from tree import HEADER_SUFFIXES, Findings, Stamps, Tree, in_parallel

_WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
_CPP = ["g++", "-std=c++20", "-x", "c++"]
_C = ["gcc", "-std=c11", "-x", "c"]
_C_ABI = "include/paceline/paceline.h"


def _generated_folders(tree: Tree) -> list[str]:
    """Include folders inside the build tree, where generated headers are."""
    database = tree.build / "compile_commands.json"
    if not database.exists():
        return []
    folders = set()
    for entry in json.loads(database.read_text()):
        words = entry["command"].split()
        folders.update(word[2:] for word in words if word.startswith("-I"))
        folders.update(after for word, after in zip(words, words[1:]) if word == "-isystem")
    build = str(tree.build.resolve())
    return sorted(f"-I{folder}" for folder in folders if folder.startswith(build))


def _needs_build(tree: Tree, closure: list[str]) -> bool:
    """Whether a generated header is included that no build has made yet."""
    generated = {
        include.target
        for path in closure
        for include in includes_of(tree, path)
        if include.target.endswith(".pb.h")
    }
    return any(not any(tree.build.rglob(name.split("/")[-1])) for name in generated)


def _first_error(stderr: str) -> str:
    for line in stderr.splitlines():
        if "error: " in line:
            return line
    return (
        stderr.strip().splitlines()[-1]
        if stderr.strip()
        else "the compiler failed without a message"
    )


def check_headers(tree: Tree) -> Findings:
    findings = Findings()
    if not shutil.which("g++"):
        findings.skipped = "g++ is missing; run scripts/install-deps"
        return findings
    version = tree.run(["g++", "--version"]).stdout
    generated_folders = _generated_folders(tree)

    def error_of(job: tuple[str, list[str]]) -> str:
        """The first error of a header; "" if it compiles, "build" if that must come first."""
        path, compiler = job
        closure = closure_of(tree, path)
        if _needs_build(tree, closure):
            return "build"
        folders = [f"-I{root}" for root in (*INCLUDE_ROOTS, ".")] + generated_folders
        command = [*compiler, "-fsyntax-only", *_WARNINGS, *folders, "-"]
        key = Stamps.key(["header", path, version, *command, *map(tree.text, closure)])
        if tree.stamps.has(key):
            return ""
        result = tree.run(command, stdin=f'#include "{path}"\n#include "{path}"\n')
        if result.returncode == 0:
            tree.stamps.put(key)
            return ""
        return _first_error(result.stderr)

    jobs = [(path, _CPP) for path in tree.matching(HEADER_SUFFIXES)]
    jobs += [(path, _C) for path, _ in jobs if path == _C_ABI]
    unjudged = []
    for (path, compiler), error in zip(jobs, in_parallel(error_of, jobs)):
        if error == "build":
            unjudged.append(path)
        elif error:
            findings.add(
                path,
                1,
                f"does not compile alone ({compiler[0]}): {error}",
                "Include what it uses, or forward-declare it",
            )
    if unjudged:
        findings.notes.append(
            f"{len(unjudged)} headers need generated code, `make build` first: {' '.join(unjudged)}"
        )
    return findings
