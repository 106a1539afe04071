"""Goal: each check of scripts/check finds what it is there for.

Method: small trees in a temporary folder, each made to break one rule (the canaries), and a tree
that keeps all rules and must pass.
"""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

GOOD_FILES = {
    "src/base/id.h": """\
#pragma once
#include <cstdint>

using Id = std::uint32_t;
""",
    "src/core/model/rank.h": """\
#pragma once
#include "base/id.h"

struct Rank {
  Id id = 0;
};
""",
    "src/core/sched/plan.h": """\
#pragma once
#include "core/model/rank.h"

Rank plan(Id time);
""",
    "src/core/sched/plan.cc": """\
#include "core/sched/plan.h"

// A comment may speak of rand() and <thread>.
Rank plan(Id time) { return Rank{.id = time}; }
""",
    "src/core/sched/plan_test.cc": """\
#include <gtest/gtest.h>

#include <fstream>

#include "core/sched/plan.h"
""",
    "src/core/control/control.h": '#pragma once\n#include "core/sched/plan.h"\n',
    "src/live/rpc/server.h": '#pragma once\n#include "core/control/control.h"\n',
    "src/live/controller/shell.h": '#pragma once\n#include "live/rpc/server.h"\n',
    "src/sim/kernel/kernel.h": '#pragma once\n#include "core/control/control.h"\n',
    "src/cli/run.h": """\
#pragma once
#include "live/controller/shell.h"
#include "sim/kernel/kernel.h"
""",
    "README.md": """\
# Good

See [the guide](docs/guide.md#start) and [the site](https://example.com/home/page).
""",
    "docs/guide.md": "# Guide\n\n`[not](a-link.md)` and [back](../README.md).\n",
}


class CheckTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        shutil.copy(REPOSITORY / ".clang-format", self.root)
        shutil.copy(REPOSITORY / ".clang-tidy", self.root)

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def write_good_tree(self) -> None:
        for path, text in GOOD_FILES.items():
            self.write(path, text)

    def check(self, *arguments: str) -> tuple[int, str]:
        """Exit status and output of scripts/check on the tree."""
        command = [REPOSITORY / "scripts/check", "--root", self.root, *arguments]
        result = subprocess.run(
            command,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=100,
            check=False,
        )
        return result.returncode, result.stdout

    def expect_violation(self, check: str, place: str, what: str) -> None:
        """Expects exactly one violation: at `place` (path:line), saying `what`, marked [check]."""
        status, output = self.check(check)
        violations = [line for line in output.splitlines() if line.endswith(f"[{check}]")]
        self.assertEqual(status, 1, output)
        self.assertEqual(len(violations), 1, output)
        self.assertTrue(violations[0].startswith(f"{place}: "), output)
        self.assertIn(what, violations[0])

    def expect_pass(self, check: str) -> None:
        status, output = self.check(check)
        self.assertEqual(status, 0, output)
        self.assertIn(f"check {check}: ok", output)

    def compile(self, source: str, target: str, *flags: str) -> None:
        output = self.root / target
        output.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["g++", "-std=c++20", "-Isrc", *flags, source, "-o", output], cwd=self.root, check=True
        )

    def archive(self, source: str) -> None:
        """Builds lib.a where CMake would, from one source."""
        folder = Path("build/release") / Path(source).parent
        member = f"{folder}/{Path(source).name}.o"
        self.compile(source, member, "-c")
        subprocess.run(["ar", "rcs", folder / "lib.a", member], cwd=self.root, check=True)

    def share(self, text: str, *flags: str) -> None:
        """Builds libpaceline.so from `text`."""
        self.write("library.cc", text)
        self.compile("library.cc", "build/release/lib/libpaceline.so", "-shared", "-fPIC", *flags)

    def compile_commands(self, source: str) -> None:
        self.write(
            "build/release/compile_commands.json",
            f'[{{"directory": "{self.root.resolve()}", "file": "{self.root.resolve()}/{source}",'
            f' "command": "g++ -std=c++20 -Isrc -c {source}"}}]',
        )


class GoodTree(CheckTest):
    def test_good_tree_passes_every_check(self) -> None:
        self.write_good_tree()
        self.archive("src/core/sched/plan.cc")
        self.compile_commands("src/core/sched/plan.cc")
        self.share('extern "C" int paceline_version() { return 1; }\n')
        status, output = self.check()
        self.assertEqual(status, 0, output)
        self.assertNotIn("SKIPPED", output)

    def test_empty_tree_passes(self) -> None:
        status, output = self.check()
        self.assertEqual(status, 0, output)

    def test_unknown_check_is_a_usage_error(self) -> None:
        status, output = self.check("no-such-check")
        self.assertEqual(status, 64, output)

    def test_untracked_file_is_not_checked(self) -> None:
        subprocess.run(["git", "init", "--quiet"], cwd=self.root, check=True)
        self.write("src/base/bad.h", "#include <thread>\n")
        self.expect_pass("purity")
        subprocess.run(["git", "add", "src"], cwd=self.root, check=True)
        self.expect_violation("purity", "src/base/bad.h:1", "<thread>")


class Format(CheckTest):
    def test_misformatted_file_is_found(self) -> None:
        self.write("src/base/a.h", "#pragma once\nint  a();\n")
        self.expect_violation("format", "src/base/a.h:2", "formatter")


class Includes(CheckTest):
    def expect_refused(self, includer: str, included: str) -> None:
        self.write_good_tree()
        self.write(includer, f'#pragma once\n#include "{included}"\n')
        self.expect_violation("includes", f"{includer}:2", included)

    def test_base_core(self) -> None:
        self.expect_refused("src/base/bad.h", "core/model/rank.h")

    def test_core_live(self) -> None:
        self.expect_refused("src/core/model/bad.h", "live/rpc/server.h")

    def test_core_sim(self) -> None:
        self.expect_refused("src/core/model/bad.h", "sim/kernel/kernel.h")

    def test_sim_live(self) -> None:
        self.expect_refused("src/sim/kernel/bad.h", "live/rpc/server.h")

    def test_live_sim(self) -> None:
        self.expect_refused("src/live/rpc/bad.h", "sim/kernel/kernel.h")

    def test_live_cli(self) -> None:
        self.expect_refused("src/live/rpc/bad.h", "cli/run.h")

    def test_core_sibling(self) -> None:
        self.expect_refused("src/core/recovery/bad.h", "core/sched/plan.h")

    def test_model_sched(self) -> None:
        self.expect_refused("src/core/model/bad.h", "core/sched/plan.h")

    def test_control_agent(self) -> None:
        self.expect_refused("src/core/control/bad.h", "core/agent/agent.h")

    def test_shell_shell(self) -> None:
        self.expect_refused("src/live/agent/bad.h", "live/controller/shell.h")

    def test_service_shell(self) -> None:
        self.expect_refused("src/live/rpc/bad.h", "live/controller/shell.h")

    def test_worker_rpc(self) -> None:
        self.expect_refused("src/live/worker/bad.h", "live/rpc/server.h")

    def test_worker_store(self) -> None:
        self.expect_refused("src/live/worker/bad.h", "live/store/journal.h")

    def test_worker_reaches_protobuf_through_another_folder(self) -> None:
        self.write(
            "src/live/wire/convert.h", "#pragma once\n#include <google/protobuf/message.h>\n"
        )
        self.write("src/live/worker/bad.h", '#pragma once\n#include "live/wire/convert.h"\n')
        self.expect_violation("includes", "src/live/worker/bad.h:2", "google/protobuf/message.h")

    def test_core_public_api(self) -> None:
        self.expect_refused("src/core/model/bad.h", "paceline/paceline.h")

    def test_unknown_layer(self) -> None:
        self.expect_refused("src/extra/bad.h", "base/id.h")

    def test_include_beside_the_file(self) -> None:
        self.expect_refused("src/core/model/bad.h", "rank.h")

    def test_public_header_includes_source(self) -> None:
        self.expect_refused("include/paceline/bad.h", "base/id.h")

    def test_example_includes_source(self) -> None:
        self.expect_refused("examples/gpt/bad.h", "base/id.h")


class Modules(CheckTest):
    def setUp(self) -> None:
        super().setUp()
        self.write("src/base/CMakeLists.txt", "paceline_module(base)\n")
        self.write(
            "src/live/os/CMakeLists.txt", "paceline_module(live_os DEPS base LIBS fmt::fmt)\n"
        )

    def test_forbidden_link_is_found(self) -> None:
        self.write(
            "src/core/model/CMakeLists.txt",
            "# The values.\npaceline_module(core_model DEPS base live_os)\n",
        )
        self.expect_violation(
            "modules", "src/core/model/CMakeLists.txt:2", "core_model links live_os"
        )

    def test_unknown_module_is_found(self) -> None:
        self.write("src/live/rpc/CMakeLists.txt", "paceline_module(live_rpc DEPS base grpc)\n")
        self.expect_violation("modules", "src/live/rpc/CMakeLists.txt:1", "no module")

    def test_outside_library_in_core_is_found(self) -> None:
        self.write(
            "src/core/model/CMakeLists.txt", "paceline_module(core_model DEPS base LIBS fmt::fmt)\n"
        )
        self.expect_violation("modules", "src/core/model/CMakeLists.txt:1", "fmt::fmt")

    def test_allowed_links_pass(self) -> None:
        self.write(
            "src/live/web/CMakeLists.txt", "paceline_module(live_web\n  DEPS base live_os)\n"
        )
        self.expect_pass("modules")


class Purity(CheckTest):
    def expect_impure(self, code: str, what: str, path: str = "src/core/model/bad.cc") -> None:
        self.write(path, f"// first line\n{code}\n")
        self.expect_violation("purity", f"{path}:2", what)

    def expect_each_line_impure(self, path: str, lines: list[str]) -> None:
        """Expects one violation on each line of a file, so that none hides behind another."""
        self.write(path, "\n".join(lines) + "\n")
        _, output = self.check("purity")
        found = [line.split(": ")[0] for line in output.splitlines() if line.endswith("[purity]")]
        self.assertEqual(found, [f"{path}:{number}" for number in range(1, len(lines) + 1)], output)

    def test_banned_headers(self) -> None:
        headers = [
            "chrono",
            "thread",
            "mutex",
            "random",
            "fstream",
            "filesystem",
            "unordered_map",
            "unordered_set",
            "iostream",
            "sys/socket.h",
            "unistd.h",
            "fmt/format.h",
        ]
        self.expect_each_line_impure(
            "src/core/model/bad.cc", [f"#include <{header}>" for header in headers]
        )

    def test_banned_headers_of_base(self) -> None:
        self.expect_impure("#include <thread>", "<thread>", "src/base/bad.cc")

    def test_banned_tokens(self) -> None:
        self.expect_each_line_impure(
            "src/core/model/bad.cc",
            [
                "int a = rand();",
                "auto* a = getenv(name);",
                "auto a = std::time(nullptr);",
                "int a = clock_gettime(id, &now);",
                "std::unordered_map<int, int> a;",
                "auto a = Clock<system_clock>();",
                "auto a = Clock<steady_clock>();",
                "std::thread a;",
                "std::map<Rank*, int> a;",
                "std::set<const model::Rank*> a;",
                "std::cout << a;",
                "throw a;",
                "} catch (const Error& error) {",
            ],
        )

    def test_quoted_outside_library(self) -> None:
        self.expect_impure('#include "fmt/format.h"', "fmt/format.h")

    def test_nondeterministic_unit_test(self) -> None:
        self.expect_impure("#include <thread>", "<thread>", "src/core/model/bad_test.cc")

    def test_comments_literals_and_members_are_no_code(self) -> None:
        self.write(
            "src/core/model/good.cc",
            """\
// rand()
/* #include <thread>
   getenv( */
const char* a = "time(0) // std::thread";
const char* b = R"(rand())";
int c = 1'000 + clock.time(0) + rng.rand();
int d = '"';
#include <map>
int brand();
""",
        )
        self.expect_pass("purity")


class Shape(CheckTest):
    def test_long_file_is_found(self) -> None:
        self.write("src/base/long.h", "\n" * 801)
        self.expect_violation("shape", "src/base/long.h:801", "801 lines")

    def test_long_function_is_found(self) -> None:
        headers = [
            "void Planner::plan(std::map<int, int> a) const {",
            "Planner::Planner() : a_{1}, b_(2) {",
            "template <class T>\nbool operator==(const T& a, const T& b) {",
            "TEST(Plan, Empty_Passes) {",
            "int f(int a = g({1})) noexcept {",
        ]
        for header in headers:
            with self.subTest(header=header):
                self.write(
                    "src/base/a.cc",
                    "namespace paceline {\n"
                    + header
                    + "\n"
                    + "  if (a) { b(); }\n" * 70
                    + "}\n}\n",
                )
                self.expect_violation("shape", "src/base/a.cc:2", "more than 70")

    def test_long_python_function_is_found(self) -> None:
        self.write("scripts/a.py", "def plan():\n" + "    pass\n" * 70)
        self.expect_violation("shape", "scripts/a.py:1", "plan has 71 lines")

    def test_long_class_and_table_are_no_functions(self) -> None:
        self.write(
            "src/base/a.h",
            "struct A {\n" + "  int f() { return 1; }\n" * 80 + "};\n"
            "const int kTable[] = {\n" + "    f(1),\n" * 80 + "};\n",
        )
        self.expect_pass("shape")


class Documents(CheckTest):
    def test_broken_link_is_found(self) -> None:
        self.write("docs/a.md", "# A\n\nSee [b](b.md#part).\n")
        self.expect_violation("links", "docs/a.md:3", "b.md")

    def test_description_of_what_is_not_there_is_found(self) -> None:
        self.write("src/base/id.h", "struct Rank {};\n")
        self.write("ARCHITECTURE.md", "# A\n\nOf `src/base/id.h` and `Rank`,\nnot of `Rank::plans`.\n")
        self.expect_violation("names", "ARCHITECTURE.md:4", "plans")
        self.write("ARCHITECTURE.md", "# A\n\nOf `src/base/ids.h`.\n")
        self.expect_violation("names", "ARCHITECTURE.md:3", "src/base/ids.h")

    def test_words_that_are_no_names_pass(self) -> None:
        self.write("ARCHITECTURE.md", "# A\n\nOf `make test`, `now` and `--flag=X`.\n")
        self.expect_pass("names")

    def test_machine_path_is_found(self) -> None:
        path = "/" + "home" + "/alice/data"
        self.write("docs/a.md", f"# A\n\nLook into {path}.\n")
        self.expect_violation("paths", "docs/a.md:3", path)


class Headers(CheckTest):
    def test_header_that_leans_on_its_includer_is_found(self) -> None:
        self.write("src/base/a.h", "#pragma once\nstd::string name();\n")
        self.expect_violation("headers", "src/base/a.h:1", "does not compile alone")

    def test_header_without_guard_is_found(self) -> None:
        self.write("src/base/a.h", "struct A {};\n")
        self.expect_violation("headers", "src/base/a.h:1", "redefinition")

    def test_abi_that_is_not_c_is_found(self) -> None:
        self.write("include/paceline/paceline.h", "#pragma once\nbool paceline_ok(void);\n")
        self.expect_violation("headers", "include/paceline/paceline.h:1", "gcc")

    def test_passed_header_is_judged_again_when_its_include_changes(self) -> None:
        self.write("src/base/a.h", "#pragma once\n#include <string>\n")
        self.write("src/base/b.h", '#pragma once\n#include "base/a.h"\nstd::string name();\n')
        self.expect_pass("headers")
        self.write("src/base/a.h", "#pragma once\n")
        self.expect_violation("headers", "src/base/b.h:1", "does not compile alone")

    def test_header_on_generated_code_waits_for_the_build(self) -> None:
        self.write("src/live/rpc/a.h", '#pragma once\n#include "paceline.pb.h"\n')
        status, output = self.check("headers")
        self.assertEqual(status, 0, output)
        self.assertIn("need generated code", output)


class Symbols(CheckTest):
    def test_core_imports_are_found(self) -> None:
        codes = {
            "getenv": '#include <cstdlib>\nchar* f() { return getenv("A"); }\n',
            "rand": "#include <cstdlib>\nint f() { return rand(); }\n",
            "clock_gettime": "#include <ctime>\nint f(timespec* t) { return clock_gettime(0, t); }",
            "steady_clock": "#include <chrono>\nlong f() { return std::chrono::steady_clock::now()"
            ".time_since_epoch().count(); }\n",
        }
        for symbol, code in codes.items():
            with self.subTest(symbol=symbol):
                self.write("src/core/model/bad.cc", code)
                self.archive("src/core/model/bad.cc")
                self.expect_violation("core-symbols", "src/core/model/bad.cc:1", symbol)

    def test_core_without_a_build_is_skipped(self) -> None:
        status, output = self.check("core-symbols")
        self.assertEqual(status, 0, output)
        self.assertIn("SKIPPED", output)

    def test_library_that_exports_more_is_found(self) -> None:
        self.share('extern "C" int paceline_a() { return 1; }\nint other() { return 2; }\n')
        self.expect_violation("library", "libpaceline.so:1", "_Z5otherv")

    def test_library_that_needs_more_is_found(self) -> None:
        self.share('extern "C" int paceline_a() { return 1; }\n', "-Wl,--no-as-needed", "-lsqlite3")
        self.expect_violation("library", "libpaceline.so:1", "libsqlite3")

    def test_library_that_exports_nothing_is_found(self) -> None:
        self.share("static int hidden() { return 1; }\nstatic int a = hidden();\n")
        self.expect_violation("library", "libpaceline.so:1", "exports no")


class Tidy(CheckTest):
    def test_bug_name_and_global_are_found(self) -> None:
        codes = {
            "readability-identifier-naming": "int BadName() { return 1; }\n",
            "avoid-non-const-global-variables": "int counter = 1;\n",
            "bugprone-integer-division": "double half(int a) { return a / 2; }\n",
        }
        for rule, code in codes.items():
            with self.subTest(rule=rule):
                self.write("src/core/model/bad.cc", code)
                self.compile_commands("src/core/model/bad.cc")
                self.expect_violation("tidy", "src/core/model/bad.cc:1", rule)

    def test_unguarded_access_is_found(self) -> None:
        self.write(
            "src/core/model/bad.cc",
            'struct __attribute__((capability("mutex"))) Mutex {};\n'
            "class Box {\n public:\n  int get() const { return value_; }\n\n private:\n"
            "  Mutex mutex_;\n  int value_ __attribute__((guarded_by(mutex_))) = 0;\n};\n"
            "int use(const Box& box) { return box.get(); }\n",
        )
        self.compile_commands("src/core/model/bad.cc")
        self.expect_violation("tidy", "src/core/model/bad.cc:4", "thread-safety")

    def test_violation_in_a_header_is_found(self) -> None:
        self.write("src/core/model/bad.h", "#pragma once\nstruct Bad {\n  Bad(int a);\n};\n")
        self.write("src/core/model/bad.cc", '#include "core/model/bad.h"\n')
        self.compile_commands("src/core/model/bad.cc")
        self.expect_violation("tidy", "src/core/model/bad.h:3", "google-explicit-constructor")

    def test_without_compile_commands_is_skipped(self) -> None:
        status, output = self.check("tidy")
        self.assertEqual(status, 0, output)
        self.assertIn("compile_commands.json", output)


if __name__ == "__main__":
    unittest.main()
