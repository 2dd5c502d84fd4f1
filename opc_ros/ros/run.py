"""Run one node as a program: one-line errors, and a clean shutdown on SIGINT and SIGTERM."""

from __future__ import annotations

import argparse
import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import rclpy
from rclpy.exceptions import (
    InvalidNamespaceException,
    InvalidNodeNameException,
    InvalidParameterTypeException,
    InvalidParameterValueException,
    ParameterUninitializedException,
)
from rclpy.executors import Executor, MultiThreadedExecutor, SingleThreadedExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import remove_ros_args

from opc_ros.bringup.shared_memory import sweep_shared_memory
from opc_ros.errors import OpcError
from opc_ros.ros.lifecycle import OpcNode, describe_settings
from opc_ros.ros.node_health import spin_some
from opc_ros.ros.precedence import take_precedence

# The longest a signal may go unnoticed: rcl waits in C, where Python's signal handlers do not run.
_PATIENCE_S = 0.1
_LAST_CALLBACKS_S = 1.5
_LOOK_S = 0.01

_WRONG_USAGE = (
    _rclpy.RCLInvalidROSArgsError,
    _rclpy.UnknownROSArgsError,
    InvalidNamespaceException,
    InvalidNodeNameException,
    InvalidParameterTypeException,
    InvalidParameterValueException,
    ParameterUninitializedException,
)


def run_node(kind: type[OpcNode[Any]], argv: Sequence[str] | None = None, *, threads: int = 1) -> int:
    """Exit 0 done or stopped by a signal, 1 refused or failed, 2 wrong usage; without `argv` the process ends here."""
    code = _run_program(kind, argv, threads)
    if argv is None:
        _end_process(code)
    return code


def _end_process(code: int) -> None:
    """Exit immediately: Python would tear down torch and ROS object by object, for seconds on a busy machine."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _run_program(kind: type[OpcNode[Any]], argv: Sequence[str] | None, threads: int) -> int:
    words = list(sys.argv if argv is None else [kind.NAME, *argv])
    with _caught_signals() as stopping:
        try:
            _parse_usage(kind, remove_ros_args(words)[1:])
            # The previous process may have been killed before it could remove its shared memory.
            sweep_shared_memory()
            # Not in a test's process, which passes its own arguments.
            has_precedence = argv is not None or take_precedence(kind.PRECEDENCE)
            rclpy.init(args=words, signal_handler_options=SignalHandlerOptions.NO)
            return _run(kind, threads, stopping, has_precedence=has_precedence)
        except OpcError as error:
            return _complain(kind, error, 1)
        except _WRONG_USAGE as error:
            return _complain(kind, error, 2)
        finally:
            rclpy.try_shutdown()


def _run(kind: type[OpcNode[Any]], threads: int, stopping: threading.Event, *, has_precedence: bool) -> int:
    node = kind()
    if not has_precedence:
        node.get_logger().info(f"{kind.PRECEDENCE} priority is not permitted here; a busy machine may delay a stop")
    executor: Executor = SingleThreadedExecutor() if threads == 1 else MultiThreadedExecutor(threads)
    try:
        node.start_itself()
        executor.add_node(node)
        while not stopping.is_set() and node.exit_code is None:
            spin_some(executor, node.health, _PATIENCE_S)
        return node.exit_code or 0
    finally:
        node.hurry()
        _let_callbacks_end(executor)
        executor.shutdown()
        node.close()


def _let_callbacks_end(executor: Executor) -> None:
    """Wait for callbacks in threads: rclpy's shutdown does not, and they would use what is destroyed next."""
    if not isinstance(executor, MultiThreadedExecutor):
        return
    executor._executor.shutdown(wait=False)
    deadline_s = time.monotonic() + _LAST_CALLBACKS_S
    for task in executor._futures:
        while not task.done() and time.monotonic() < deadline_s:
            time.sleep(_LOOK_S)
        with suppress(Exception):  # reported already, or irrelevant by now
            task.result()


def _parse_usage(kind: type[OpcNode[Any]], words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog=kind.NAME,
        usage=f"{kind.NAME} [--ros-args -p PARAMETER:=VALUE ... -r __ns:=/ROBOT]",
        description=kind.__doc__,
        epilog=f"parameters (default): meaning\n{describe_settings(kind.SETTINGS)}\n"
        "  autostart (True): configure and activate without a lifecycle manager\n"
        "  config (''): YAML file with values that replace the defaults",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.parse_args(words)


def _complain(kind: type[OpcNode[Any]], error: Exception, code: int) -> int:
    print(f"{kind.NAME}: {' '.join(str(error).split())}", file=sys.stderr)
    return code


@contextmanager
def _caught_signals() -> Iterator[threading.Event]:
    stopping = threading.Event()

    def stop(signum: int, frame: FrameType | None) -> None:
        stopping.set()

    before = {signum: signal.signal(signum, stop) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopping
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
