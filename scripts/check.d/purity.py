"""base and core use the standard library only, nothing of it that makes a run differ from its
replay, and no exceptions.

Two groups. What is not deterministic is banned in base, core and their tests. Input and output, and
other people's libraries, are banned in base and core, but a test may read its scenario from a file
and uses a test framework.
"""

import re
from dataclasses import dataclass

from cpp_source import code_only, includes_of, line_of
from includes import LAYERS_SEEN
from tree import CPP_SUFFIXES, Findings, Tree

NONDETERMINISTIC_HEADERS = {
    "chrono": "Take `now` as a parameter and use base's Instant and Duration",
    "ctime": "Take `now` as a parameter and use base's Instant and Duration",
    "thread": "Return an effect and let the shell in src/live wait",
    "future": "Return an effect and let the shell in src/live wait",
    "mutex": "One thread drives a core; lock in the shell in src/live, if at all",
    "shared_mutex": "One thread drives a core; lock in the shell in src/live, if at all",
    "condition_variable": "One thread drives a core; wait in the shell in src/live",
    "semaphore": "One thread drives a core; wait in the shell in src/live",
    "random": "Take base's seeded Rng as a parameter",
    "unordered_map": "Use std::map or a sorted vector: iteration order must not depend on a hash",
    "unordered_set": "Use std::set or a sorted vector: iteration order must not depend on a hash",
}
INPUT_OUTPUT_HEADERS = {
    "fstream": "Let the shell in src/live read and write, and pass the contents",
    "filesystem": "Let the shell in src/live read and write, and pass the contents",
    "iostream": "Put a TraceRecord into the effects",
    "csignal": "Let the shell in src/live handle signals and pass an event",
}
STANDARD_HEADERS = set(
    """
    algorithm any array atomic bit bitset cassert cctype cerrno cfloat charconv cinttypes climits
    cmath compare concepts cstdarg cstddef cstdint cstdio cstdlib cstring deque exception
    forward_list functional initializer_list iomanip ios iosfwd istream iterator limits list map
    memory memory_resource new numbers numeric optional ostream queue ranges ratio set
    source_location span sstream stack stdexcept streambuf string string_view system_error tuple
    type_traits typeindex typeinfo utility variant vector version
    """.split()
)
TEST_HEADERS = re.compile(r"^(gtest|gmock|rapidcheck)(/|\.h)")


@dataclass(frozen=True)
class Token:
    pattern: re.Pattern
    what: str
    remedy: str
    is_allowed_in_tests: bool = False


_NOT_A_MEMBER = r"(?<![\w.])(?<!->)"
TOKENS = [
    Token(
        re.compile(_NOT_A_MEMBER + r"s?rand(?:_r)?\s*\("),
        "unseeded randomness",
        "Take base's seeded Rng as a parameter",
    ),
    Token(
        re.compile(r"\bstd::random_device\b"),
        "unseeded randomness",
        "Take base's seeded Rng as a parameter",
    ),
    Token(
        re.compile(r"\b(?:secure_)?getenv\s*\("),
        "reads the environment",
        "Take the value as a parameter",
        True,  # random tests take their seed from it
    ),
    Token(
        re.compile(_NOT_A_MEMBER + r"time\s*\(\s*(?:nullptr|NULL|0|&)"),
        "reads a clock",
        "Take `now` as a parameter",
    ),
    Token(
        re.compile(r"\b(?:clock_gettime|gettimeofday)\s*\("),
        "reads a clock",
        "Take `now` as a parameter",
    ),
    Token(
        re.compile(r"\b(?:system_clock|steady_clock|high_resolution_clock)\b"),
        "reads a clock",
        "Take `now` as a parameter",
    ),
    Token(
        re.compile(r"\bstd::(?:thread|jthread|async|this_thread)\b"),
        "uses a thread",
        "Return an effect and let the shell in src/live run it",
    ),
    Token(re.compile(_NOT_A_MEMBER + r"(?:nano|u)?sleep\s*\("), "sleeps", "Return a deadline"),
    Token(
        re.compile(r"\bstd::unordered_\w+"),
        "uses an unordered container",
        "Use std::map, std::set or a sorted vector: iteration order must not depend on a hash",
    ),
    Token(
        re.compile(r"\bstd::(?:map|set)<\s*(?:const\s+)?[\w:]+(?:\s+const)?\s*\*"),
        "orders by address, which differs from run to run",
        "Key by a strong id",
    ),
    Token(
        re.compile(r"\b(?:fopen|popen)\s*\(|" + _NOT_A_MEMBER + r"(?:socket|system)\s*\("),
        "touches the operating system",
        "Return an effect and let the shell in src/live do it",
        True,
    ),
    Token(
        re.compile(r"\bthrow\b|\bcatch\s*\("),
        "uses exceptions",
        "Return a Status or a Result",
        True,
    ),
    Token(
        re.compile(r"\bstd::c(?:out|err|log|in)\b"),
        "does input or output",
        "Put a TraceRecord into the effects",
        True,
    ),
]


def _header_remedy(header: str, is_test: bool) -> str | None:
    """What to do instead of including <header>, or None if it is allowed."""
    if header in NONDETERMINISTIC_HEADERS:
        return NONDETERMINISTIC_HEADERS[header]
    if is_test:
        return (
            "Let the shell in src/live do it"
            if header.startswith("sys/") or header == "unistd.h"
            else None
        )
    if header in INPUT_OUTPUT_HEADERS:
        return INPUT_OUTPUT_HEADERS[header]
    if header in STANDARD_HEADERS:
        return None
    return "base and core use the standard library only, and of it what is deterministic"


def _check_file(tree: Tree, path: str, findings: Findings) -> None:
    is_test = path.endswith(("_test.cc", "_for_test.h"))
    layer = path.split("/")[1]
    for include in includes_of(tree, path):
        is_ours = include.is_quoted and include.target.split("/")[0] in (*LAYERS_SEEN, "paceline")
        if is_ours or (is_test and TEST_HEADERS.search(include.target)):
            continue  # the include matrix judges ours
        remedy = _header_remedy(include.target, is_test)
        if remedy:
            findings.add(
                path, include.line, f"{layer} is pure, but includes <{include.target}>", remedy
            )
    code = code_only(tree.text(path))
    for token in TOKENS:
        if is_test and token.is_allowed_in_tests:
            continue
        for match in token.pattern.finditer(code):
            findings.add(
                path,
                line_of(code, match.start()),
                f"{layer} is pure, but `{match.group().strip()}` {token.what}",
                token.remedy,
            )


def check_purity(tree: Tree) -> Findings:
    findings = Findings()
    for path in tree.matching(CPP_SUFFIXES, ("src/base/", "src/core/")):
        _check_file(tree, path, findings)
    findings.violations.sort()
    return findings
