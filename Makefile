# Every target installs what it needs: Debian packages with apt (root or sudo), Python packages into .venv.
FUZZ_SECONDS ?= 60
JOBS ?= $(shell nproc)
export JOBS

.DEFAULT_GOAL := help
.PHONY: help demo build test bench wheel lint fuzz clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' Makefile

demo: build ## record a small transformer twice, once with a planted fault, and find the fault
	@scripts/venv demo
	@scripts/demo

build: ## build/vernier, and `import vernier` in .venv/bin/python
	@scripts/setup build python
	@scripts/venv
	@scripts/build release

test: build ## everything CI runs: C++ tests, Python tests, a short run of each fuzzer
	@scripts/setup fuzz test
	@scripts/venv test
	@scripts/test

bench: build ## the benchmarks of docs/performance.md
	@scripts/venv test
	@bench/run

wheel: ## one self-contained wheel in dist/, tried with every Python there is
	@scripts/setup build python
	@scripts/venv wheel
	@scripts/wheel
	@scripts/test_wheel dist/*.whl

lint: build ## formatting, ruff, clang-tidy, file lengths
	@scripts/setup lint
	@scripts/venv lint
	@scripts/lint

fuzz: ## FUZZ_SECONDS=60 of each fuzzer
	@scripts/setup build fuzz
	@scripts/fuzz $(FUZZ_SECONDS)

clean: ## remove everything that was built, and .venv
	@rm -rf build build-* dist out .venv
