# The commands of the README. Each installs what it needs on a fresh Debian 12 or Ubuntu 24.04 machine (as root or with sudo).
PRESET ?= dev
BUILD  := build/$(PRESET)
JOBS   ?= $(shell nproc)
# Each test says for how many halves of a processor it counts (cmake/TesseraTargets.cmake).
TEST_JOBS ?= $(shell echo $$((2 * $(JOBS))))

# The interpreter itself before what a version manager has put in its place: a script of half a second for each of a thousand starts.
export PATH := $(or $(shell python3 -c 'import os, sys; print(os.path.dirname(sys.executable))' 2>/dev/null),/usr/bin):$(PATH)

# ThreadSanitizer before gcc 14 does not start where the kernel randomises addresses by more than 28 bits.
SAME_ADDRESSES := $(shell setarch -R true 2>/dev/null && echo setarch -R)

.PHONY: build demo demo-cluster test sanitize fuzz lint format bench bundle packages install-dependencies clean

build: install-dependencies
	cmake --preset $(PRESET) -Wno-dev
	cmake --build --preset $(PRESET) -j$(JOBS)

demo: install-dependencies
	@cmake --preset $(PRESET) -Wno-dev --log-level=WARNING >/dev/null
	@echo "building the command, the library, a server and the emulated GPU (some minutes the first time)"
	@NINJA_STATUS="%f of %t, %es: " cmake --build --preset $(PRESET) -j$(JOBS) --target demo_parts
	@deploy/demo/run $(BUILD)

# A pool of three servers on this host: ten jobs, and a server that is killed.
demo-cluster: install-dependencies
	@cmake --preset $(PRESET) -Wno-dev --log-level=WARNING >/dev/null
	@NINJA_STATUS="%f of %t, %es: " cmake --build --preset $(PRESET) -j$(JOBS) --target product
	@deploy/demo/cluster/run $(BUILD)

# Also what tests/tidy needs (clang-format), tests/bench (valgrind), tests/system (prometheus) and tests/rdma: soft-RoCE in a guest.
test: build
	deploy/install-dependencies clang-format-16 valgrind prometheus qemu-system-x86 busybox-static cpio kmod rdma-core iproute2 ibverbs-providers groff-base mandoc systemd
	ctest --preset $(PRESET) -j$(TEST_JOBS)

# Address, undefined-behaviour and thread sanitizers over the parts with threads or untrusted bytes.
sanitize: install-dependencies
	cmake --preset asan -Wno-dev && cmake --build --preset asan -j$(JOBS) --target sanitized_tests
	ctest --test-dir build/asan -L sanitize --output-on-failure -j$(TEST_JOBS)
	cmake --preset tsan -Wno-dev && cmake --build --preset tsan -j$(JOBS) --target sanitized_tests
	$(SAME_ADDRESSES) ctest --test-dir build/tsan -L sanitize --output-on-failure -j$(TEST_JOBS)

# Every fuzz target for FUZZ_SECONDS (30). Not part of continuous integration, where their replay tests are.
fuzz: install-dependencies
	deploy/install-dependencies clang-16 libclang-rt-16-dev
	cmake --preset fuzz -Wno-dev && cmake --build --preset fuzz -j$(JOBS)
	ctest --test-dir build/fuzz -L fuzz --output-on-failure

# clang's thread-safety analysis, as errors, and clang-tidy, as warnings, over everything. Not part of continuous integration.
lint: install-dependencies
	deploy/install-dependencies clang-16 clang-tidy-16
	cmake --preset lint -Wno-dev && cmake --build --preset lint -j$(JOBS)

# The code as tests/tidy/format_test.py wants it.
format:
	deploy/install-dependencies clang-format-16
	git ls-files '*.cc' '*.h' '*.cu' '*.c' | grep -v /golden/ | xargs clang-format-16 -i

# All of tests/bench on this machine: some minutes. Figures go to $(BUILD)/bench.
bench: build
	mkdir -p $(BUILD)/bench
	tests/bench/run $(BUILD) -o $(BUILD)/bench/driver.json --seconds 0.1
	tests/bench/start $(BUILD) -o $(BUILD)/bench/start.json
	tests/bench/short $(BUILD) -o $(BUILD)/bench/short.json
	tests/bench/usage $(BUILD) -o $(BUILD)/bench/usage.json
	$(BUILD)/bin/link_bench -o $(BUILD)/bench/links.json
	tests/bench/sweep $(BUILD) -o $(BUILD)/bench/sweep.json --seconds 0.1
	tests/bench/plot $(BUILD)/bench/sweep.json
	tests/bench/targets $(BUILD)/bench
	tests/bench/quota $(BUILD) -o $(BUILD)/bench/quota.json --pairs 3 --seconds 0.02

# Debian packages for the distribution that this runs on, in $(BUILD)/packages.
packages: install-dependencies
	deploy/install-dependencies dpkg-dev file
	cmake --preset $(PRESET) -Wno-dev
	cmake --build --preset $(PRESET) -j$(JOBS) --target package_files
	cd $(BUILD) && cpack

bundle: build
	deploy/bundle/make-bundle $(BUILD)

install-dependencies:
	@deploy/install-dependencies

clean:
	rm -rf build
