"""Files and functions of a length that a reader can hold: 800 and 70 lines at most."""

import ast
import re
from dataclasses import dataclass

from cpp_source import code_only, line_of, without_directives
from tree import CPP_SUFFIXES, Findings, Tree

FILE_LINES = 800
FUNCTION_LINES = 70
_CODE_SUFFIXES = CPP_SUFFIXES + (
    ".py",
    ".ts",
    ".tsx",
    ".js",
    ".css",
    ".proto",
    ".cmake",
    "CMakeLists.txt",
    "Makefile",
)

_TEMPLATE = re.compile(r"template\s*<[^<>]*(?:<[^<>]*>[^<>]*)*>")
_TYPE_OR_SCOPE = re.compile(
    r"^\s*(?:inline\s+|typedef\s+)*(?:class|struct|union|enum|namespace|extern\b(?!.*\())"
)
_PARENTHESISED = re.compile(r"\([^()]*\)")
_OPERATOR = re.compile(r"\boperator\s*(?:\(\s*\)|[^\s\w(]+)")


@dataclass(frozen=True)
class Extent:
    line: int
    line_count: int
    name: str


def _function_name(header: str) -> str | None:
    """The name of the function that `header`, the text before a brace, begins; None for others."""
    header = _TEMPLATE.sub(lambda match: " " * len(match.group()), header)
    if _TYPE_OR_SCOPE.match(header) or "(" not in header:
        return None
    flat = _OPERATOR.sub("operator_", header)
    name = re.search(r"([\w:~]+)\s*\(", flat)
    while _PARENTHESISED.search(flat):
        flat = _PARENTHESISED.sub(" ", flat)
    if "=" in flat or name is None:
        return None  # an initialiser
    return name.group(1)


def cpp_functions(text: str) -> list[Extent]:
    """The outermost functions, found by counting braces. Lambdas count with what holds them."""
    code = without_directives(code_only(text))
    functions = []
    depth = 0
    body_depth = None  # depth outside the function that we are in
    parentheses = 0  # outside functions: the braces of a default argument open no body
    header_start = 0
    begun: tuple[int, str] = (0, "")
    for match in re.finditer(r"[{}();]", code):
        brace = match.group()
        if brace in "()":
            parentheses += 0 if body_depth is not None else 1 if brace == "(" else -1
            continue
        if parentheses:
            continue
        if brace == "{":
            header = code[header_start : match.start()]
            name = _function_name(header) if body_depth is None else None
            if name:
                begun = (header_start + len(header) - len(header.lstrip()), name)
                body_depth = depth
            depth += 1
        elif brace == "}":
            depth -= 1
            if depth == body_depth:
                first = line_of(code, begun[0])
                functions.append(Extent(first, line_of(code, match.start()) - first + 1, begun[1]))
                body_depth = None
        header_start = match.end()
    return functions


def python_functions(text: str) -> list[Extent]:
    return [
        Extent(node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1, node.name)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


def _functions(path: str, text: str) -> list[Extent]:
    if path.endswith(CPP_SUFFIXES):
        return cpp_functions(text)
    return python_functions(text) if path.endswith(".py") else []


def check_shape(tree: Tree) -> Findings:
    findings = Findings()
    for path in tree.matching(_CODE_SUFFIXES):
        text = tree.text(path)
        line_count = text.count("\n")
        if line_count > FILE_LINES:
            findings.add(
                path,
                line_count,
                f"the file has {line_count} lines, more than {FILE_LINES}",
                "One idea per file: split it",
            )
        for function in _functions(path, text):
            if function.line_count > FUNCTION_LINES:
                findings.add(
                    path,
                    function.line,
                    f"{function.name} has {function.line_count} lines, more than {FUNCTION_LINES}",
                    "Name its parts: push ifs up and fors down",
                )
    return findings
