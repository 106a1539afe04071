# The front door: one word for each thing that one does with this tree. CMake builds, ctest tests.
# PRESET chooses the build (release, dev, asan, tsan), JOBS how many cores it may use.
#
# Tests carry ctest labels. `make test` runs all but those labelled fuzz, bench or game-days,
# which take minutes.

PRESET ?= release
JOBS ?= 2

BUILD := build/$(PRESET)
CTEST := ctest --output-on-failure --timeout 300 -j$(JOBS)
LONG := -LE '^(fuzz|bench|game-days)$$'
TARGET_LINE := ^[a-z-]+:.*\#\#

.DEFAULT_GOAL := help
.PHONY: help deps build demo test check fmt sim game-days explore fuzz bench bench-recovery bench-clean bench-straggler
.PHONY: bench-cost bench-goodput bench-torch bench-exactness bench-absence bench-resume bench-joins bench-strangers digests schedules
.PHONY: asan tsan clean

help:  ## list the targets
	@awk -F ':.*## ' '/$(TARGET_LINE)/ {printf "  make %-16s %s\n", $$1, $$2}' Makefile

deps:  ## install the Debian packages that are missing
	@scripts/install-deps

build:  ## configure and build PRESET (release)
	@cmake --preset $(PRESET) -B $(BUILD)
	@cmake --build $(BUILD) -j$(JOBS)

demo: deps build  ## train on this machine, break it, and watch it recover
	@scripts/demo

test: deps build  ## build and run the default tests
	@$(CTEST) --test-dir $(BUILD) $(LONG)

check: build  ## format, include matrix, purity, headers, symbols, size, documents, clang-tidy
	@scripts/check --build $(BUILD)

fmt:  ## format the tracked C++ files in place
	@git ls-files -z '*.cc' '*.h' '*.hpp' | xargs -0 -r clang-format -i

sim: build  ## random faults in virtual time: 1,000 seeds of two hours and 20 of a day (20 minutes)
	@mkdir -p out
	@status=0; \
	  for set in hours days; do \
	    $(BUILD)/bin/chaos --set $$set --threads $(JOBS) --out out/sim-$$set.json || status=1; \
	  done; \
	  exit $$status

game-days: build  ## every kind of fault against real processes (minutes)
	@ctest --output-on-failure --test-dir $(BUILD) -L '^game-days$$' --no-tests=error -j1

explore: build  ## every message order of the commit protocol, all configurations (hours, 12 GB)
	@ctest --output-on-failure --test-dir $(BUILD) -C long -L '^long$$' -j1 --no-tests=error

# tests/fuzz adds the target `fuzzers` when PACELINE_FUZZ is on, and a test labelled fuzz for each.
fuzz:  ## fuzz the codecs and parsers with libFuzzer (minutes)
	@CC=clang-14 CXX=clang++-14 cmake --preset release -B build/fuzz -DPACELINE_FUZZ=ON
	@cmake --build build/fuzz -j$(JOBS) --target fuzzers
	@$(CTEST) --test-dir build/fuzz -L '^fuzz$$' --no-tests=error

bench: build  ## benchmarks, peers side by side
	@ctest --output-on-failure --test-dir $(BUILD) -L '^bench$$' --no-tests=error -j1

# Hours on an idle machine; FLAGS=--quick looks whether the harness works. bench/README.md tells more.
bench-recovery: build  ## detection and recovery under hundreds of faults, idle and beside 8 busy loops (hours)
	@mkdir -p out
	@status=0; \
	  bench/recovery/bench_recovery.py --pace $(BUILD)/bin/pace --out out/recovery-idle.json $(FLAGS) || status=1; \
	  bench/recovery/bench_recovery.py --pace $(BUILD)/bin/pace --out out/recovery-busy.json --busy 8 $(FLAGS) || status=1; \
	  exit $$status

bench-clean: build  ## a long unusual run without faults must raise no alarm (half an hour)
	@mkdir -p out
	@bench/recovery/bench_clean.py --pace $(BUILD)/bin/pace --out out/clean.json $(FLAGS)

bench-straggler: build  ## how soon a slow rank is found, relieved and given its work back (5 minutes)
	@mkdir -p out
	@bench/recovery/bench_straggler.py --pace $(BUILD)/bin/pace --out out/straggler.json $(FLAGS)

bench-cost: build  ## what agents, controller, votes and records cost a training (half an hour)
	@mkdir -p out
	@bench/recovery/bench_cost.py --pace $(BUILD)/bin/pace --out out/cost.json $(FLAGS)

bench-goodput: build  ## throughput with a fault every 29 s, against that without in the same run (a quarter of an hour)
	@mkdir -p out
	@bench/recovery/bench_goodput.py --pace $(BUILD)/bin/pace --out out/goodput.json $(FLAGS)

bench-torch: build  ## kill to next step, beside torchrun with DDP and checkpoints (ten minutes; installs python3-torch)
	@scripts/install-deps --bench
	@mkdir -p out
	@bench/recovery/bench_torch.py --pace $(BUILD)/bin/pace --out out/torch.json $(FLAGS)

# Configured and built again: the peers may have been installed just now.
bench-fabric:  ## all-reduce beside Gloo and Open MPI, and the least that has to be moved (ten minutes; installs them)
	@scripts/install-deps --bench
	@$(MAKE) --no-print-directory build
	@mkdir -p out
	@bench/fabric/bench_fabric.py --compare $(BUILD)/bin/fabric_compare --out out/fabric.json $(FLAGS)

bench-exactness: build  ## held-out loss of exact against fast mode, and steps computed again for overflow (half an hour)
	@mkdir -p out
	@bench/recovery/bench_exactness.py --pace $(BUILD)/bin/pace --out out/exactness.json $(FLAGS)

digests: build  ## the same bits on 2, 3 and 4 hosts, 1 and 2 ranks each, with and without spares and faults (half an hour)
	@bench/recovery/digests.py --pace $(BUILD)/bin/pace $(FLAGS)

bench-absence: build  ## controllers and agents killed: what training notices, and who takes over (an hour)
	@mkdir -p out
	@bench/recovery/bench_absence.py --pace $(BUILD)/bin/pace --out out/absence.json $(FLAGS)

bench-resume: build  ## jobs ended in every way and continued from disk, compared bit for bit (half an hour)
	@mkdir -p out
	@bench/recovery/bench_resume.py --pace $(BUILD)/bin/pace --out out/resume.json $(FLAGS)

bench-joins: build  ## joins in the middle of which something fails: what they cost the others (ten minutes)
	@mkdir -p out
	@bench/recovery/bench_joins.py --pace $(BUILD)/bin/pace --out out/joins.json $(FLAGS)

bench-strangers: build  ## random bytes on a job's ports must disturb nothing (a minute)
	@mkdir -p out
	@bench/recovery/bench_strangers.py --pace $(BUILD)/bin/pace --out out/strangers.json $(FLAGS)

N ?= 200
SEED ?= 1
schedules: build  ## N random schedules of faults, each compared bit for bit with an undisturbed run
	@bench/recovery/random_schedules.py --pace $(BUILD)/bin/pace --count $(N) --seed $(SEED) $(FLAGS)

asan:  ## default tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@cmake --preset asan
	@cmake --build build/asan -j$(JOBS)
	@$(CTEST) --test-dir build/asan $(LONG)

tsan:  ## default tests under ThreadSanitizer
	@cmake --preset tsan
	@cmake --build build/tsan -j$(JOBS)
	@$(CTEST) --test-dir build/tsan $(LONG)

clean:  ## remove everything that was built
	@rm -rf build
