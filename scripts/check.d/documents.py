"""Links between documents lead somewhere, and no file names a folder of one particular machine."""

import re
from pathlib import PurePosixPath

from cpp_source import line_of
from tree import Findings, Tree

_CODE = re.compile(r"^```.*?^```|^~~~.*?^~~~|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(\s*<?([^)>\s]+)>?[^)]*\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
_OUTSIDE = re.compile(r"^([a-z][a-z0-9+.-]*:|#|//)", re.IGNORECASE)

_MACHINE_PATH = re.compile(r"(?<![\w.:/$}~-])/(?:home|Users|root|work)/[\w./-]*\w")
# Where a path of some machine is an example or data and not a dependency on it.
_DATA_SUFFIXES = (".csv", ".golden", ".svg", ".gz", ".zst")


def _blank(match: re.Match) -> str:
    return re.sub(r"[^\n]", " ", match.group())


def check_links(tree: Tree) -> Findings:
    findings = Findings()
    for path in tree.matching((".md",)):
        text = _CODE.sub(_blank, tree.text(path))
        for match in _LINK.finditer(text):
            link = match.group(1) or match.group(2)
            if _OUTSIDE.match(link):
                continue
            target = re.split(r"[#?]", link)[0]
            folder = "" if target.startswith("/") else PurePosixPath(path).parent
            if not (tree.root / folder / target.lstrip("/")).exists():
                findings.add(
                    path,
                    line_of(text, match.start()),
                    f"links to {link}, which does not exist",
                    "Correct the link, or add the file",
                )
    return findings


def check_machine_paths(tree: Tree) -> Findings:
    findings = Findings()
    for path in tree.files:
        if path.endswith(_DATA_SUFFIXES):
            continue
        text = tree.text(path)
        for match in _MACHINE_PATH.finditer(text):
            findings.add(
                path,
                line_of(text, match.start()),
                f"names {match.group()}, a path of one machine",
                "Use a path relative to the repository, a flag or an environment variable",
            )
    return findings
