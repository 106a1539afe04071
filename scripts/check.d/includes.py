"""The include matrix: base <- core <- {live, sim} <- cli, and what holds inside core and live.

A folder that is added to src/ needs a line here if it is a new layer, a shell, or a core folder
that sees more than base, core/model and itself.
"""

import re
from pathlib import PurePosixPath
from typing import NamedTuple

from cpp_source import Include, includes_of, resolve
from tree import CPP_SUFFIXES, Findings, Tree

LAYERS_SEEN = {
    "base": {"base"},
    "core": {"base", "core"},
    "live": {"base", "core", "live"},
    "sim": {"base", "core", "sim"},
    "cli": {"base", "core", "live", "sim", "cli"},
}
# Beside model and itself, which each one sees.
CORE_FOLDERS_SEEN = {"control": {"sched", "recovery"}}
SHELLS = {"controller", "agent", "worker", "aggregator", "engines"}
# The worker is part of libpaceline, whose processes bring their own copies of gRPC and protobuf.
# And nothing in the library sees the fault injector.
SERVICES_CLOSED_TO_WORKER = {"rpc", "store", "web", "fault"}
_RPC_HEADER = re.compile(r"^(grpc|grpcpp|grpc\+\+|google/protobuf)/|\.pb\.h$")
_PUBLIC_API_USERS = ("live", "cli")


class Refusal(NamedTuple):
    what: str
    remedy: str


def _layer_and_folder(path_from_src: str) -> tuple[str, str]:
    parts = PurePosixPath(path_from_src).parts[:-1] + ("", "")
    return parts[0], parts[1]


def _core_refusal(source: str, target: str) -> Refusal | None:
    seen = {"model", source} | CORE_FOLDERS_SEEN.get(source, set())
    if target in seen:
        return None
    names = ", ".join(f"core/{folder}" for folder in sorted(seen))
    return Refusal(
        f"core/{source} sees base, {names} only", "Pass the value, or move its type to core/model"
    )


def _live_refusal(source: str, target: str) -> Refusal | None:
    if source == "worker" and target in SERVICES_CLOSED_TO_WORKER:
        return Refusal(
            f"libpaceline must not carry live/{target}",
            "Speak to the agent in fixed binary records",
        )
    if target in SHELLS and target != source:
        role = "a shell and knows no other" if source in SHELLS else "a service and knows no shell"
        return Refusal(
            f"live/{source} is {role}", "Wire the two in cli, or move what they share to a service"
        )
    return None


def refusal(source: str, target: str) -> Refusal | None:
    """Why `source` may not include `target` (paths from src/) and what to do; None if it may."""
    source_layer, source_folder = _layer_and_folder(source)
    target_layer, target_folder = _layer_and_folder(target)
    seen = LAYERS_SEEN.get(source_layer)
    if seen is None:
        return Refusal(
            f"src/{source_layer} is no known layer", "Add it to LAYERS_SEEN in includes.py"
        )
    if target_layer not in seen:
        names = ", ".join(sorted(seen))
        return Refusal(
            f"{source_layer} sees {names} only", "Turn the dependency round, or move the type down"
        )
    if source_layer == target_layer == "core":
        return _core_refusal(source_folder, target_folder)
    if source_layer == target_layer == "live":
        return _live_refusal(source_folder, target_folder)
    return None


def _include_refusal(tree: Tree, path: str, include: Include) -> Refusal | None:
    """The same for a quoted include in the file `path`."""
    from_src = path.removeprefix("src/")
    first = PurePosixPath(include.target).parts[0]
    if first in LAYERS_SEEN:
        return refusal(from_src, include.target)
    if first == "paceline" and not from_src.startswith(_PUBLIC_API_USERS):
        return Refusal("the public API is for ranks", "Use the types of core/model")
    target = resolve(tree, include, path)
    if target and target.startswith("src/"):
        from_root = target.removeprefix("src/")
        return Refusal("includes are written from src/", f'Write "{from_root}"')
    return None  # generated or from outside; purity judges it for base and core


def _check_source_file(tree: Tree, path: str, findings: Findings) -> None:
    for include in includes_of(tree, path):
        refused = _include_refusal(tree, path, include) if include.is_quoted else None
        if refused:
            what = f'includes "{include.target}", but {refused.what}'
            findings.add(path, include.line, what, refused.remedy)


def _check_outside_user(tree: Tree, path: str, findings: Findings) -> None:
    for include in includes_of(tree, path):
        if include.is_quoted and PurePosixPath(include.target).parts[0] in LAYERS_SEEN:
            findings.add(
                path,
                include.line,
                f'includes "{include.target}", which is not installed with the library',
                "Use include/paceline only",
            )


def _rpc_chain(tree: Tree, path: str, visited: set[str]) -> list[str]:
    """The files on a way from `path` to a gRPC or protobuf header; empty if there is none."""
    visited.add(path)
    for include in includes_of(tree, path):
        if _RPC_HEADER.search(include.target):
            return [path, include.target]
        target = resolve(tree, include, path)
        if target and target not in visited:
            chain = _rpc_chain(tree, target, visited)
            if chain:
                return [path] + chain
    return []


def _check_worker(tree: Tree, path: str, findings: Findings) -> None:
    chain = _rpc_chain(tree, path, set())
    if not chain:
        return
    line = next(
        include.line
        for include in includes_of(tree, path)
        if chain[1] in (include.target, resolve(tree, include, path))
    )
    findings.add(
        path,
        line,
        f"brings gRPC or protobuf into libpaceline: {' -> '.join(chain)}",
        "Include a header without wire types",
    )


def check_includes(tree: Tree) -> Findings:
    findings = Findings()
    for path in tree.matching(CPP_SUFFIXES, ("src/",)):
        _check_source_file(tree, path, findings)
    for path in tree.matching(CPP_SUFFIXES, ("include/", "examples/")):
        _check_outside_user(tree, path, findings)
    for path in tree.matching(CPP_SUFFIXES, ("src/live/worker/",)):
        _check_worker(tree, path, findings)
    return findings
