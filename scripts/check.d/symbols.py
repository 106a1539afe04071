"""What the built libraries import and export: the same rules, where no source text can hide."""

import re
from pathlib import Path

from tree import Findings, Tree

_BANNED_IMPORTS = set(
    """
    accept bind clock clock_gettime clock_nanosleep connect dlopen drand48 execve fopen fopen64 fork
    getaddrinfo getenv getentropy getrandom gettimeofday listen localtime localtime_r nanosleep open
    open64 openat openat64 popen pthread_cond_wait pthread_create pthread_mutex_lock rand rand_r
    random read recv recvmsg secure_getenv send sendmsg sleep socket srand srandom system time
    usleep
    """.split()
)
_BANNED_MANGLED = re.compile(
    r"^_Z(NK?St6chrono3_V2|NK?St6thread|NK?St13random_device|NK?St18condition_variable"
    r"|NK?St13basic_filebuf|NK?St10filesystem|NSt7__cxx1110filesystem"
    r"|St4cout|St4cerr|NSt8__detail15_Prime_rehash)"
)

_ALLOWED_NEEDED = re.compile(r"^(lib(c|m|stdc\+\+|gcc_s|pthread)\.so\.\d+|ld-linux.*\.so\.\d+)$")
_PUBLIC_PREFIX = "paceline_"
_LINKER_SYMBOLS = {"_init", "_fini", "_edata", "_end", "__bss_start"}


def _is_banned_import(symbol: str) -> bool:
    return symbol.split("@")[0] in _BANNED_IMPORTS or bool(_BANNED_MANGLED.match(symbol))


def _imports(tree: Tree, archive: Path) -> list[tuple[str, str]]:
    """(object, undefined symbol) pairs of a static library."""
    pairs = []
    member = ""
    for line in tree.run(["nm", "--undefined-only", str(archive)]).stdout.splitlines():
        if line.endswith(":"):
            member = line.removesuffix(":")
        elif line.strip():
            pairs.append((member, line.split()[-1]))
    return pairs


def check_core_symbols(tree: Tree) -> Findings:
    findings = Findings()
    archives = sorted(
        path for layer in ("base", "core") for path in (tree.build / "src" / layer).rglob("*.a")
    )
    if not archives:
        findings.skipped = (
            f"no static library of src/base or src/core in {tree.build}; `make build` first"
        )
        return findings
    for archive in archives:
        # CMake builds src/core/model/x.cc into <build>/src/core/model/lib*.a(x.cc.o).
        folder = archive.parent.relative_to(tree.build)
        for member, symbol in _imports(tree, archive):
            if _is_banned_import(symbol):
                findings.add(
                    str(folder / member.removesuffix(".o")),
                    1,
                    f"its object imports `{symbol}`",
                    "base and core are pure: take the value as a parameter or return an effect",
                )
    return findings


def check_library_symbols(tree: Tree) -> Findings:
    findings = Findings()
    library = tree.build / "lib/libpaceline.so"
    if not library.exists():
        findings.skipped = f"no {library.name} in {library.parent}; `make build` first"
        return findings
    dynamic = tree.run(["readelf", "--dynamic", "--wide", str(library)]).stdout
    for needed in re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic):
        if not _ALLOWED_NEEDED.match(needed):
            findings.add(
                library.name,
                1,
                f"needs {needed} at run time",
                "It may need the C and C++ run-time only: frameworks bring their own of the rest",
            )
    exported = _exports(tree, library)
    for kind, symbol in exported:
        is_version_name = kind == "A"
        if not (symbol.startswith(_PUBLIC_PREFIX) or symbol in _LINKER_SYMBOLS or is_version_name):
            findings.add(
                library.name,
                1,
                f"exports `{symbol}`",
                "Hide it: a version script exports paceline_* only",
            )
    if not any(symbol.startswith(_PUBLIC_PREFIX) for _, symbol in exported):
        findings.add(
            library.name, 1, "exports no paceline_ function", "Mark the C ABI with PACELINE_API"
        )
    _compare_null_runtime(tree, {symbol for _, symbol in exported}, findings)
    return findings


def _exports(tree: Tree, library: Path) -> list[tuple[str, str]]:
    """(kind, symbol) pairs."""
    defined = tree.run(
        ["nm", "--dynamic", "--defined-only", "--without-symbol-versions", str(library)]
    ).stdout
    return [(line.split()[-2], line.split()[-1]) for line in defined.splitlines()]


def _compare_null_runtime(tree: Tree, exported: set[str], findings: Findings) -> None:
    """Programs that the benchmarks run on the null runtime call whatever the library has."""
    null_runtime = tree.build / "lib/null/libpaceline.so"
    if not null_runtime.exists():
        return
    known = {symbol for _, symbol in _exports(tree, null_runtime)}
    for symbol in sorted(exported - known):
        if symbol.startswith(_PUBLIC_PREFIX):
            findings.add(
                "bench/null_runtime/null_runtime.cc",
                1,
                f"lacks `{symbol}`",
                "Define it: bench_cost runs programs on it in place of libpaceline",
            )
