# Every target sets up .venv by itself on first use; all it needs is make and Python 3.11 or newer.
PYTHON ?= python3
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Both workers have a core; compiled code is kept, and files lie in memory with 2 GB of room: tests wait for the disk often.
ALONE := env -u PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(shell test -w /dev/shm && df -Pk /dev/shm | awk 'NR == 2 && $$4 > 2000000 {print "TMPDIR=/dev/shm"}')
.PHONY: check test test-all typescript build-if-possible vectors demo demo-web demo-organisations console try dist bench bench-all bench-peers docs lock

check: .venv/.stamp  ## lint, format, types, spelling, prose
	$(BIN)/ruff check && $(BIN)/ruff format --check && $(BIN)/mypy && $(BIN)/mypy deploy/*.py deploy/*/*.py docs/making && $(BIN)/mypy --config-file tests/mypy.toml tests benchmarks
	$(BIN)/codespell -I docs/words.txt $$(git ls-files '*.md' '*.py') && $(BIN)/proselint --config .proselintrc.json check -o compact $$(git ls-files '*.md')
test: build-if-possible .venv/.stamp $(if $(shell command -v chromium),.venv/.more)  ## the quick tests, in under 5 minutes; one in a browser if there is one
	$(ALONE) $(BIN)/python -m pytest -n 2 --dist worksteal --assert=plain --showlocals -m "not slow" && $(MAKE) -s -C client/typescript say
test-all: build-if-possible .venv/.more  ## every test; those in a browser need Chromium (Debian: apt install chromium), a client Node 20
	$(ALONE) $(BIN)/python -m pytest -n 2 --dist worksteal
typescript build-if-possible: ; @$(MAKE) -s -C client/typescript $(@:typescript=test)
vectors: .venv/.stamp ; $(BIN)/python tests/vectors/reference.py
demo demo-organisations console: .venv/.stamp  ## real processes, real data; of clients, or of airlines; console: it stays, for a browser
	$(BIN)/python deploy/$(subst -,_,$(@:console=demo)).py $(if $(filter console,$@),--stay)
demo-web: build-if-possible .venv/.stamp ; $(BIN)/python deploy/demo_web.py
try: .venv/.stamp ; @$(BIN)/lintra trial "$(or $(FILE),$(error type make try FILE=patients.csv TARGET=systolic))" --target "$(TARGET)" --epsilon "$(or $(EPSILON),1)"
dist: .venv/.more ; $(BIN)/python deploy/dist.py
docs: .venv/.more ; $(BIN)/python -m sphinx -q -W --keep-going -b html docs build/docs
bench bench-all: .venv/.more  ## every benchmark, small, in under ten minutes; or in full, hours
	$(BIN)/python benchmarks/every.py $(if $(filter bench-all,$@),--full)
bench-peers: .venv/.stamp  ## the race against what people would use instead; sets up an environment for them
	@test -x build/peers/bin/python || ($(PYTHON) -m venv build/peers && build/peers/bin/python -m pip install -qr benchmarks/peers/requirements.txt)
	build/peers/bin/python benchmarks/peers/public_tables.py build/race/tables && $(BIN)/python benchmarks/bench_peers.py --runs 20 --peers build/peers/bin/python --race

.venv/.stamp: pyproject.toml requirements.lock
	@echo "setting up .venv (a minute on first use)"
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv .venv && $(BIN)/python -m pip install --quiet -r requirements.lock
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e . && touch $@
.venv/.more: .venv/.stamp requirements-more.lock
	@$(BIN)/python -m pip install --quiet -r requirements-more.lock && touch $@
lock: .venv/.stamp  ## write requirements.lock again
	$(BIN)/python -m pip install --quiet uv
	printf 'hatchling\neditables\n' | $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	  --no-annotate --custom-compile-command "make lock" --extra all --group test --group check pyproject.toml - -o requirements.lock
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
	  --custom-compile-command "make lock" --group more -c requirements.lock -o requirements-more.lock
