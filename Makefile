# Every target installs what it needs: Debian packages with apt (root or sudo), Python packages into .venv.
FUZZ_SECONDS ?= 60
JOBS ?= $(shell nproc)
export JOBS

.DEFAULT_GOAL := help
.PHONY: help demo build test test-quick bench wheel lint fuzz clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' Makefile

demo: build ## record a small transformer twice, once with a planted fault, and find the fault
	@scripts/venv demo
	@scripts/demo

build: ## build/vernier, and `import vernier` in .venv/bin/python
	@scripts/setup build python
	@scripts/venv
	@scripts/build release

test: build ## everything CI runs: lint, tests, sanitizers, every instruction set, the wheel, the fuzzers
	@scripts/setup lint fuzz test
	@scripts/venv lint test wheel
	@scripts/test

test-quick: build ## the C++ tests, and the Python tests that record nothing: for the inner loop
	@scripts/setup test
	@scripts/venv test
	@scripts/test quick

bench: build ## the benchmarks of docs/performance.md
	@scripts/venv test
	@bench/run

wheel: ## one self-contained wheel in dist/, tried with every Python there is
	@scripts/setup build python
	@scripts/venv wheel
	@scripts/wheel
	@scripts/test_wheel dist/*.whl

lint: build ## formatting, includes, ruff, file lengths, clang-tidy
	@scripts/setup lint
	@scripts/venv lint
	@scripts/lint tidy

fuzz: ## FUZZ_SECONDS=60 of each fuzzer
	@scripts/setup build fuzz
	@scripts/fuzz $(FUZZ_SECONDS)

clean: ## remove everything that was built, and .venv
	@rm -rf build build-* dist out .venv
