.DEFAULT_GOAL := help
.PHONY: help run test check bench attacks fuzz docs build deps bpf

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

node_modules/.installed: package.json package-lock.json
	npm ci --no-audit --no-fund
	@touch $@

deps: node_modules/.installed

build: deps ## compile to dist/
	npm run -s build

run: build ## install, build, then serve in front of a demo origin with embedded defaults
	node dist/src/main.js demo

test: build ## install and start what tests need, then run everything
	bash test/support/run-all.sh

check: deps ## lint, types, layering and unit tests; run it before every commit
	npx tsc -p tsconfig.json --noEmit
	npx eslint src test bench
	npx tap --reporter=terse "src/**/*.test.ts" test/tidy.test.ts

bench: build ## throughput, latency, stage times, memory into bench/RESULTS.md; with CORPUS=path the attacks too
	CORPUS="$(CORPUS)" bash bench/run.sh

attacks: build ## catch rate and false positives over labelled requests: make attacks CORPUS=path
	node dist/test/attacks/measure.js "$(CORPUS)"

fuzz: deps ## property tests with many more runs
	FUZZ_RUNS=20000 npx tap "test/fuzz/*.test.ts"

bpf: ## the XDP filter and its loader into bpf/build/ (needs clang and libbpf-dev)
	@$(MAKE) --no-print-directory -C bpf

docs: build ## regenerate the config reference page
	node dist/src/main.js config-reference > deploy/config-reference.md
