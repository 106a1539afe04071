"""Links between documents lead somewhere, what documents say of the code exists, and no file names a
folder of one particular machine."""

import re
from functools import lru_cache
from pathlib import PurePosixPath

from cpp_source import line_of
from tree import CPP_SUFFIXES, Findings, Tree

_CODE = re.compile(r"^```.*?^```|^~~~.*?^~~~|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(\s*<?([^)>\s]+)>?[^)]*\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
_OUTSIDE = re.compile(r"^([a-z][a-z0-9+.-]*:|#|//)", re.IGNORECASE)

_MACHINE_PATH = re.compile(r"(?<![\w.:/$}~-])/(?:home|Users|root|work)/[\w./-]*\w")
# Documents that describe the code as it is. Others may speak of what is planned or rejected.
_DESCRIPTIONS = ("ARCHITECTURE.md", "docs/operations.md", "docs/design/0001-", "docs/design/0003-")
_FENCE = re.compile(r"^```.*?^```|^~~~.*?^~~~", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"(?:src|include|proto|tests|scripts|cmake|docs|examples|bench)/[\w./-]+")
# A type or a constant, a member, a function. A lone lower-case word is not told from a word of
# English, nor a field of a file.
_NAME = re.compile(r"k?[A-Z]\w*(?:::\w+)*|\w+_\w+|\w+\(\)")
_WORD = re.compile(r"\w+")

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


@lru_cache(maxsize=None)
def _words_of_source(tree: Tree) -> frozenset[str]:
    # CMakeLists.txt and Python too: documents speak of a build's functions and of report fields.
    suffixes = (*CPP_SUFFIXES, ".txt", ".cmake", ".py", ".proto", ".map")
    return frozenset(
        word for path in tree.matching(suffixes) for word in _WORD.findall(tree.text(path))
    )


def _unknown_in(tree: Tree, span: str) -> str | None:
    """The part of an inline code span that names nothing in this tree, if it is a name at all."""
    if _PATH.fullmatch(span):
        return None if (tree.root / span).exists() else span
    if _NAME.fullmatch(span):
        words = _words_of_source(tree)
        return next((word for word in _WORD.findall(span) if word not in words), None)
    return None


def check_names(tree: Tree) -> Findings:
    findings = Findings()
    for path in tree.matching((".md",)):
        if not path.startswith(_DESCRIPTIONS):
            continue
        text = _FENCE.sub(_blank, tree.text(path))
        for match in _SPAN.finditer(text):
            unknown = _unknown_in(tree, match.group(1))
            if unknown:
                findings.add(
                    path,
                    line_of(text, match.start()),
                    f"speaks of {unknown}, which is not in this tree",
                    "Say it as the code does now",
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
