# Two commands for people: `make demo` and `make test`. Each sets up what it needs, once.

comma := ,
VENV ?= .venv
ROS_SETUP ?= $(firstword $(wildcard /opt/ros/jazzy/setup.sh /opt/ros/kilted/setup.sh))
PYTHON ?= $(shell for p in $(if $(ROS_SETUP),/usr/bin/python3) python3.11 python3.12 python3; do \
    $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null && echo $$p && break; done)

# A machine with ROS 2 of its own uses that; any other gets it from wheels.
EXTRAS := dev$(if $(ROS_SETUP),,$(comma)ros-wheels)
IN_ROS := $(if $(ROS_SETUP),. $(ROS_SETUP) && . $(VENV)/local_setup.sh &&)
INTERFACES := $(shell find ros2_ws/src/opc_interfaces -type f)
BENCHMARKS = $(sort $(patsubst tests/benchmarks/%.py,%,$(wildcard tests/benchmarks/bench_*.py)))

.PHONY: help demo test lint format bench setup constraints clean
help:
	@echo "make demo    run the main job from end to end"
	@echo "make test    run every test"
	@echo "make lint    formatter, linter and type checker"
	@echo "make bench   speed figures, as ratios from one run"
	@echo "make setup   only prepare $(VENV)"

demo: setup
	@$(IN_ROS) $(VENV)/bin/opc demo

test: setup
	@$(IN_ROS) $(VENV)/bin/python -m pytest -n 2 --dist loadfile

lint: setup
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy

format: setup
	@$(VENV)/bin/ruff format .
	@$(VENV)/bin/ruff check --fix .

bench: setup
	@$(IN_ROS) for name in $(BENCHMARKS); do echo "== $$name"; $(VENV)/bin/python -m tests.benchmarks.$$name || exit 1; done

setup: $(VENV)/.interfaces

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or 3.12 found (got: $$(python3 --version 2>&1)); install one, or give PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 12) else f"make: PYTHON is {v[0]}.{v[1]}, expected 3.11 or 3.12")'
	@echo "setting up $(VENV) with $$($(PYTHON) --version)$(if $(ROS_SETUP), and ROS 2 from $(ROS_SETUP))"
	@$(PYTHON) -m venv $(if $(ROS_SETUP),--system-site-packages) $(VENV) || { rm -rf $(VENV); echo "make: no virtual environment could be made; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing pinned packages (a few minutes the first time)"
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@touch $@

$(VENV)/.interfaces: $(VENV)/.installed $(INTERFACES) ros2_ws/build_interfaces.py
	@echo "building opc_interfaces (two minutes the first time)"
	@$(if $(ROS_SETUP),. $(ROS_SETUP) &&) $(VENV)/bin/python ros2_ws/build_interfaces.py
	@touch $@

constraints: setup
	@$(VENV)/bin/python -m pip install --quiet --upgrade --editable '.[$(EXTRAS)]'
	@$(VENV)/bin/python .ci/freeze > constraints.txt

clean:
	rm -rf $(VENV) ros2_ws/build ros2_ws/install ros2_ws/log
