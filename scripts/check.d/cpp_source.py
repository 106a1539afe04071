"""The little that the checks know of C++ text: what is code, and what is included."""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from tree import Tree

# In this order: a quote inside a comment opens no string, and a comment sign inside a string opens
# no comment. A ' after a digit is a separator (1'000).
_OPAQUE = re.compile(
    r"""//(?:\\\n|[^\n])*
      | /\*.*?\*/
      | R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"
      | "(?:\\.|[^"\\\n])*"
      | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'
    """,
    re.VERBOSE | re.DOTALL,
)
INCLUDE_ROOTS = ("src", "include", "examples")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)


@dataclass(frozen=True)
class Include:
    line: int
    target: str
    is_quoted: bool


def _blank(match: re.Match) -> str:
    return re.sub(r"[^\n]", " ", match.group())


def code_only(text: str) -> str:
    """`text` with comments and literals blanked; what remains keeps its line and column."""
    return _OPAQUE.sub(_blank, text)


def without_directives(code: str) -> str:
    """`code` (see code_only) with preprocessor lines blanked too."""
    return _DIRECTIVE.sub(_blank, code)


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


@lru_cache(maxsize=None)
def includes_of(tree: Tree, path: str) -> tuple[Include, ...]:
    text = tree.text(path)
    # Only comments count here: blanking literals would blank the names of quoted includes.
    uncommented = _OPAQUE.sub(
        lambda match: _blank(match) if match.group().startswith("/") else match.group(), text
    )
    return tuple(
        Include(line_of(text, match.start(2)), match.group(2), match.group(1) == '"')
        for match in _INCLUDE.finditer(uncommented)
    )


def resolve(tree: Tree, include: Include, includer: str) -> str | None:
    """The file of this tree that the include names, or None for one from outside or generated."""
    for folder in (*INCLUDE_ROOTS, str(PurePosixPath(includer).parent), ""):
        candidate = str(PurePosixPath(folder) / include.target)
        if ".." not in candidate and (tree.root / candidate).is_file():
            return candidate
    return None


def closure_of(tree: Tree, path: str) -> list[str]:
    """`path` and every file of this tree that it includes, directly or not; sorted."""
    seen = {path}
    pending = [path]
    while pending:
        current = pending.pop()
        for include in includes_of(tree, current):
            target = resolve(tree, include, current)
            if target and target not in seen:
                seen.add(target)
                pending.append(target)
    return sorted(seen)
