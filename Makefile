# make test: everything CI runs.  make demo: seven objectives compared fairly on embedded data.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
COMPILED := $(VENV)/.compiled

export HF_HUB_OFFLINE := 1
# Tests start many processes; with byte code kept, none of them compiles the package again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: test demo venv lint types imports bench bench-objectives clean

# mypy takes one core for most of a minute; meanwhile the other compiles what was installed.
test: venv
	@$(MAKE) --no-print-directory --jobs=2 --output-sync lint $(COMPILED) types imports
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder

demo: venv
	$(BIN)/hypersphere compare demo

venv: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@echo "Installing into $(VENV) (a minute or two the first time)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

$(COMPILED): $(INSTALLED)
	@$(BIN)/python -m compileall -qq -x '/tests/' $(abspath $(VENV))/lib > $@ 2>&1 || true # templates among them fail

lint: venv
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: venv
	$(BIN)/mypy

imports: venv
	$(BIN)/lint-imports --no-logo

bench: venv
	$(BIN)/python -m benchmarks.engine --large

# Half an hour or more; may be interrupted, and continues. Peers that are installed take part: pip install -e '.[peers]',
# and lightly once benchmarks/lightly_env/create.py has made its environment.
LIGHTLY := $(wildcard benchmarks/lightly_env/venv/bin/python)
bench-objectives: venv
	$(BIN)/hypersphere benchmark objectives --out benchmarks/results/objectives $(LIGHTLY:%=--lightly-python %)

clean:
	rm -rf build dist demo .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
