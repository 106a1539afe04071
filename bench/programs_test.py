#!/usr/bin/env python3
"""Goal: a changed helper breaks no benchmark unseen, though none of them runs by default.

Method: each program is imported and says its --help, and each of its calls of a function, class or method of
another file here is held against the signature that it finds.
"""

import ast
import importlib
import inspect
import subprocess
import sys
import types
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
FOLDERS = (HERE / "recovery", HERE / "fabric")
sys.path[:0] = map(str, FOLDERS)

FILES = sorted(file for folder in FOLDERS for file in folder.glob("*.py"))
PROGRAMS = [file for file in FILES if "\ndef main(" in file.read_text()]
MODULES = {file: importlib.import_module(file.stem) for file in FILES}
FOREIGN = (str, bytes, list, dict, set, Path, subprocess.Popen)  # methods of these may be meant instead


def is_ours(target: object) -> bool:
    return getattr(target, "__module__", None) in {file.stem for file in FILES}


def methods(name: str) -> list[types.FunctionType]:
    """Of all classes here, unless a foreign one has such a method, too."""
    if any(hasattr(kind, name) for kind in FOREIGN):
        return []
    kinds = {kind for module in MODULES.values() for kind in vars(module).values()
             if inspect.isclass(kind) and is_ours(kind)}
    return [vars(kind)[name] for kind in kinds if isinstance(vars(kind).get(name), types.FunctionType)]


def called(call: ast.Call, module: types.ModuleType) -> tuple[list, int]:
    """What a call may mean, and how many arguments it gives unseen."""
    if isinstance(call.func, ast.Name):
        return [getattr(module, call.func.id, None)], 0
    if not isinstance(call.func, ast.Attribute):
        return [], 0
    owner = getattr(module, call.func.value.id, None) if isinstance(call.func.value, ast.Name) else None
    if inspect.ismodule(owner) or inspect.isclass(owner):
        return [getattr(owner, call.func.attr)], 0
    return methods(call.func.attr), 1


def misfit(call: ast.Call, target: object, unseen: int) -> str | None:
    """None: it fits."""
    try:
        inspect.signature(target).bind(*[None] * (len(call.args) + unseen),
                                       **{each.arg: None for each in call.keywords})
    except TypeError as error:
        return f"line {call.lineno}: {target.__qualname__}: {error}"
    return None


def misfits(text: str, module: types.ModuleType) -> list[str]:
    found = []
    for call in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)):
        if any(isinstance(value, ast.Starred) for value in call.args) or not all(each.arg for each in call.keywords):
            continue
        targets, unseen = called(call, module)
        problems = [misfit(call, target, unseen) for target in targets if callable(target) and is_ours(target)]
        if problems and all(problems):
            found += problems
    return found


class Programs(unittest.TestCase):
    def test_each_program_says_its_help(self):
        for file in PROGRAMS:
            with self.subTest(file.name):
                run = subprocess.run([sys.executable, "-B", file, "--help"], capture_output=True, text=True, timeout=60)
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertIn("usage:", run.stdout)

    def test_each_call_fits_what_it_calls(self):
        for file, module in MODULES.items():
            with self.subTest(file.name):
                self.assertEqual(misfits(file.read_text(), module), [])

    def test_a_call_that_does_not_fit_is_found(self):
        module = types.SimpleNamespace(figures=importlib.import_module("figures"))
        for text in ("figures.percentile([1.0])", "figures.write_json(1, 2, 3)", "workload.command()"):
            with self.subTest(text):
                self.assertNotEqual(misfits(text, module), [])


if __name__ == "__main__":
    unittest.main()
