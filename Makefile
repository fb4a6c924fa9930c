# Two commands do everything on a machine that has Python, make and git:
#   make demo    install into .venv and show what sfumato does
#   make test    install what the tests need and run all of them (this is what CI runs)
# make quick is the loop of somebody who changes the code; make site builds the documentation.
# A third one checks the theorems again:
#   make proofs  install Rocq and check proofs/rocq (one to four minutes; CI compares the digests of the last check)
PYTHON ?= python3
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test quick lint types tests proofs site long bench constraints sbom dist clean

demo: .venv/installed
	$(BIN)/sfumato demo

# Side by side, so that neither core waits: packages and programs are installed together, types checked beside the first tests.
test:
	+$(MAKE) --no-print-directory --jobs=2 lint types tests

lint: .venv/tested
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/tested
	$(BIN)/mypy

tests: .venv/tested .venv/programs
	$(BIN)/pytest -n 2 --durations=8

# The one-minute loop: lint, types, and the tests of the packages that differ from main.
quick: .venv/tested
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m tests.quick

# The documentation as a site, in build/site; `make site` fails at any warning.
site: .venv/tested
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The theorems, from nothing; then what is kept of the last check is compared with it.
proofs: .venv/tested .venv/rocq
	$(BIN)/python -m tests.proofs.check

# Examples that nobody has seen yet, 20 times over; what it finds is kept as an @example.
long: .venv/tested
	$(BIN)/python -m tests.longer

# One question each, one ratio each; they compare with other libraries, so they install those too.
bench: .venv/benched
	for question in benchmarks/*.py; do $(BIN)/python $$question || exit 1; done

# Newest versions of all packages that a server needs, by hash, for Python 3.11 and later on every system.
COMPILE := $(BIN)/uv pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 --upgrade \
  --generate-hashes --no-emit-index-url --no-header --no-annotate
constraints: .venv/released
	$(COMPILE) pyproject.toml --extra server --extra postgres --extra plot --extra report --output-file deploy/constraints/server.txt
	$(COMPILE) pyproject.toml --extra all --output-file deploy/constraints/all.txt
	echo hatchling | $(COMPILE) - --output-file deploy/constraints/build.txt

# The bill of materials of a server: installed by hash into an environment of its own, then listed with licences.
sbom: .venv/released
	$(PYTHON) -m venv --clear --without-pip build/server
	$(BIN)/pip --python build/server/bin/python install --quiet --require-hashes --requirement deploy/constraints/server.txt
	$(BIN)/pip --python build/server/bin/python install --quiet --no-deps .
	$(BIN)/cyclonedx-py environment build/server --pyproject pyproject.toml --output-reproducible --output-file deploy/sbom.cdx.json

# Wheel and sdist, in dist/.
dist: .venv/released
	$(BIN)/python -m hatchling build --target sdist --target wheel --directory dist

.venv/created:
	$(PYTHON) -m venv .venv
	touch $@

# The stamps stand for what pyproject.toml asked for: a second run finds them newer and installs nothing.
.venv/installed: .venv/created pyproject.toml
	$(BIN)/pip install --quiet --editable .
	touch $@

.venv/tested: .venv/installed
	$(BIN)/pip install --quiet --editable '.[test]'
	touch $@

# The tests start a PostgreSQL, a Java client and a browser of their own and inject faults with strace; where they cannot be had,
# tests say so.
PROGRAMS := postgresql strace openjdk-17-jre-headless chromium chromium-driver libpostgresql-jdbc-java
.venv/programs: .venv/created
	@if ! { ls /usr/lib/postgresql/*/bin/initdb /usr/share/java/postgresql.jar && \
	    command -v strace && command -v java && command -v chromium && command -v chromedriver; } > /dev/null 2>&1; then \
	  if [ "$$(id -u)" = 0 ]; then apt-get update -q && apt-get -o DPkg::Lock::Timeout=600 install -y -q --no-install-recommends $(PROGRAMS); \
	  else echo "NOT INSTALLED: $(PROGRAMS) need root (apt-get install); their tests are skipped"; fi; \
	fi
	touch $@

.venv/rocq: .venv/created
	@if ! command -v coqchk > /dev/null 2>&1; then \
	  if [ "$$(id -u)" = 0 ]; then apt-get update -q && apt-get -o DPkg::Lock::Timeout=600 install -y -q --no-install-recommends coq; \
	  else echo "NOT INSTALLED: Rocq needs root (apt-get install coq)"; exit 1; fi; \
	fi
	touch $@

.venv/benched: .venv/tested
	$(BIN)/pip install --quiet --editable '.[test,bench]'
	touch $@

.venv/released: .venv/installed
	$(BIN)/pip install --quiet --editable '.[release]'
	touch $@

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
