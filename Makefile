# Two commands for people: `make demo` and `make test`. Each sets up what it needs the first time.

VENV ?= .venv
ROS_SETUP ?= $(firstword $(wildcard /opt/ros/jazzy/setup.sh /opt/ros/kilted/setup.sh))
export PYTHON ROS_SETUP SYSTEM_PACKAGES UNLOCKED

# A machine with its own ROS 2 uses that; any other gets ROS 2 from wheels.
EXTRAS := $(if $(ROS_SETUP),,ros-wheels)
IN_ROS := $(if $(ROS_SETUP),. $(ROS_SETUP) && . $(VENV)/share/opc_interfaces/local_setup.sh &&)
INTERFACES := $(shell find ros2_ws/src/opc_interfaces ros2_ws/wheels -type f)
BENCHMARKS = $(sort $(patsubst tests/benchmarks/%.py,%,$(wildcard tests/benchmarks/bench_*.py)))
TESTS ?=
# Disk space for packages and a first run's files; torch takes 6 GB if built for CUDA, and 1 GB if built for CPUs.
DEMO_GB := 8
DEV_GB := 10

.PHONY: help demo test test-slow coverage lint format bench setup constraints lock clean fresh
help:
	@echo "make demo      run the main job from end to end"
	@echo "make test      run every test"
	@echo "make test-slow run the commands of README and tutorials as printed; takes minutes"
	@echo "make coverage  run every test and show which lines are covered"
	@echo "make lint      run formatter, linter and type checker"
	@echo "make bench     measure speed, as ratios within one run"
	@echo "make setup     only prepare $(VENV), with everything that tests and developers need"
	@echo "make fresh     run the two commands in a new minimal Debian, as root (debootstrap)"

demo: $(VENV)/.interfaces
	@$(IN_ROS) $(VENV)/bin/opc demo

test: setup
	@$(IN_ROS) $(VENV)/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(TESTS)

test-slow: setup
	@$(IN_ROS) $(VENV)/bin/python -m pytest -m slow -v $(TESTS)

coverage: setup
	@$(IN_ROS) $(VENV)/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --cov --cov-report=term:skip-covered $(TESTS)

lint: setup
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy

format: setup
	@$(VENV)/bin/ruff format .
	@$(VENV)/bin/ruff check --fix .

bench: setup
	@$(IN_ROS) for name in $(BENCHMARKS); do echo "== $$name"; $(VENV)/bin/python -m tests.benchmarks.$$name || exit 1; done

setup: $(VENV)/.interfaces $(VENV)/.installed-dev

# Everything below is done once, and resumes after an interruption. The check comes before any download.
$(VENV)/bin/python:
	@python=$$(.ci/check-machine $(DEMO_GB)) && \
	    echo "setting up $(VENV) with $$($$python --version)$(if $(ROS_SETUP), and ROS 2 from $(ROS_SETUP))" && \
	    began=$$(date +%s) && \
	    { $$python -m venv $(if $(ROS_SETUP),--system-site-packages) $(VENV) || { rm -rf $(VENV); exit 1; }; } && \
	    echo "environment $$(($$(date +%s) - began))" > $(VENV)/.phases

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	@.ci/check-machine $(DEMO_GB) >/dev/null
	@$(VENV)/bin/python .ci/install.py $(EXTRAS)
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@.ci/check-machine $(DEV_GB) >/dev/null
	@$(VENV)/bin/python .ci/install.py $(EXTRAS) dev
	@touch $@

$(VENV)/.interfaces: $(VENV)/.installed $(INTERFACES) ros2_ws/build_interfaces.py
	@.ci/check-machine $(DEMO_GB) >/dev/null
	@echo "building opc_interfaces"
	@$(if $(ROS_SETUP),. $(ROS_SETUP) &&) $(VENV)/bin/python ros2_ws/build_interfaces.py
	@awk '{all += $$2; each = each (NR > 1 ? ", " : "") $$1 " " int($$2 + .5) " s"} END {if (NR) printf "set up in %.0f s: %s\n", all, each}' $(VENV)/.phases
	@rm -f $(VENV)/.phases
	@touch $@

constraints: setup
	@$(VENV)/bin/python -m pip install --quiet --upgrade --editable '.[dev,ros-wheels]'
	@$(VENV)/bin/python .ci/freeze.py > constraints.new && mv constraints.new constraints.txt
	@$(VENV)/bin/python .ci/lock.py

lock: setup
	@$(VENV)/bin/python .ci/lock.py

fresh:
	@.ci/fresh

clean:
	rm -rf $(VENV) ros2_ws/build ros2_ws/install ros2_ws/log
