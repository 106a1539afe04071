"""A folder's library links what the folder may include; base and core link nothing from outside."""

import re
from pathlib import PurePosixPath

from cpp_source import line_of
from includes import refusal
from tree import Findings, Tree

_COMMENT = re.compile(r"#[^\n]*")
_MODULE = re.compile(r"\bpaceline_module\(\s*(?P<name>\w+)(?P<rest>[^)]*)\)")
_KEYWORDS = ("DEPS", "LIBS")


def _arguments(rest: str, keyword: str) -> list[str]:
    """The words after `keyword` up to the next keyword."""
    values = []
    current = ""
    for word in rest.split():
        if word in _KEYWORDS:
            current = word
        elif current == keyword:
            values.append(word)
    return values


def _modules(tree: Tree) -> dict[str, tuple[str, int, str]]:
    """Of each module its file, line and arguments, by name."""
    found = {}
    for path in tree.matching(("CMakeLists.txt",), ("src/",)):
        text = _COMMENT.sub("", tree.text(path))
        for match in _MODULE.finditer(text):
            found[match["name"]] = (path, line_of(text, match.start()), match["rest"])
    return found


def check_modules(tree: Tree) -> Findings:
    findings = Findings()
    modules = _modules(tree)
    for name, (path, line, rest) in modules.items():
        folder = PurePosixPath(path.removeprefix("src/")).parent
        for dependency in _arguments(rest, "DEPS"):
            if dependency not in modules:
                findings.add(
                    path,
                    line,
                    f"{name} links {dependency}, which is no module of src/",
                    "Correct the name, or move it to LIBS if it is from outside",
                )
                continue
            target = PurePosixPath(modules[dependency][0].removeprefix("src/")).parent
            refused = refusal(str(folder / "x.h"), str(target / "x.h"))
            if refused:
                what = f"{name} links {dependency}, but {refused.what}"
                findings.add(path, line, what, refused.remedy)
        if folder.parts[:1] in (("base",), ("core",)) and _arguments(rest, "LIBS"):
            findings.add(
                path,
                line,
                f"{name} links {' '.join(_arguments(rest, 'LIBS'))}",
                "base and core use the standard library only",
            )
    return findings
