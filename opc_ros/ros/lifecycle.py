"""The base class of all nodes: a lifecycle node with described, validated parameters and one-line errors."""

from __future__ import annotations

import dataclasses
import difflib
import time
import traceback
import typing
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter

from opc_ros.config import parse_config
from opc_ros.documents import parse_yaml, read_bytes
from opc_ros.errors import ConfigError, OpcError
from opc_ros.ros.node_health import NodeHealth
from opc_ros.ros.precedence import Precedence

S = TypeVar("S")

LARGEST_FLOAT = 1.7976931348623157e308
LARGEST_INT = 2**63 - 1

# Settings that decide whom a node trusts and where it writes; no node lets them change after it has started.
TRUST_SETTINGS = frozenset({"robot", "keys", "people", "store", "state", "candidates", "allow_code", "rungs", "domain"})
# ROS declares these on every node.
_OF_ROS = ("use_sim_time", "start_type_description_service", "qos_overrides.")


class OpcNode(LifecycleNode, Generic[S]):  # type: ignore[misc]  # rclpy has no types
    """A node whose parameters are the fields of one dataclass.

    A subclass names itself and its settings, and implements `setup`, `start` and `pause`. Whatever `setup` opens it
    hands to `self.held`, which closes it on cleanup, on shutdown and if `setup` fails half-way. An OpcError from
    `setup` or `start` refuses the transition with its one-line message. `finish` ends the program from inside.

    A node that others' safety depends on is guarded: it comes up once and goes down when its process ends, its settings
    are those it was started with, and its clock is the machine's. Nobody on the network can change any of that.
    """

    NAME: ClassVar[str]
    SETTINGS: ClassVar[type]
    IS_GUARDED: ClassVar[bool] = False
    PRECEDENCE: ClassVar[Precedence] = Precedence.NONE

    def __init__(self) -> None:
        super().__init__(self.NAME)
        self.exit_code: int | None = None
        self.held = ExitStack()
        self._refusal: OpcError | None = None
        self._is_starting_itself = False
        self._was_active = False
        self.health = NodeHealth(self)
        self._declare()
        self._serve_change = self._service_change_state.callback
        self._service_change_state.callback = self._on_change_state
        self.add_on_set_parameters_callback(self._check_change)

    def setup(self, settings: S) -> None:
        """Open what the node needs."""

    def start(self) -> None:
        """Begin to act."""

    def pause(self) -> None:
        """Stop acting, leaving nothing half done."""

    def hurry(self) -> None:
        """The program is ending: let long callbacks finish soon; they are waited for."""

    def now_ns(self) -> int:
        """Time by the node's clock, which follows /clock if use_sim_time is set, but never in a guarded node."""
        return time.time_ns() if self.IS_GUARDED else int(self.get_clock().now().nanoseconds)

    @property
    def is_active(self) -> bool:
        return bool(self._state_machine.current_state[1] == "active")

    def end_on_error(self, work: Callable[[], None]) -> None:
        """Run the body of a thread; an error in it must end the program, not only the thread."""
        try:
            work()
        except Exception:
            self.get_logger().fatal(traceback.format_exc())
            self.finish(1)

    def finish(self, exit_code: int = 0) -> None:
        """End the program after the current callback."""
        self.exit_code = exit_code

    def start_itself(self) -> None:
        """Configure and activate, unless `autostart` leaves that to a lifecycle manager."""
        if not self.get_parameter("autostart").value:
            return
        self._is_starting_itself = True
        for trigger in (self.trigger_configure, self.trigger_activate):
            if trigger() != TransitionCallbackReturn.SUCCESS:
                raise self._refusal or OpcError("could not start; its log says why")
        self._is_starting_itself = False

    def close(self) -> None:
        """Shut down from any state."""
        if self._state_machine.current_state[1] != "finalized":
            self.trigger_shutdown()
        self.destroy_node()

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        result = self._attempt(lambda: self.setup(self._read_settings()))
        if result != TransitionCallbackReturn.SUCCESS:
            self._attempt(self.held.close)
        return result

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        result = self._attempt(self.start)
        if result != TransitionCallbackReturn.SUCCESS:
            return result
        self._was_active = True
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._attempt(self.pause)
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        return self._attempt(self.held.close)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        if state.label == "active":
            self._attempt(self.pause)
        return self._attempt(self.held.close)

    def note_refused(self, what: str) -> None:
        """Report that somebody on the network asked a guarded node for something it does not do."""
        self.get_logger().warning(what)

    def _on_change_state(self, request: Any, response: Any) -> Any:
        if self.IS_GUARDED and self._was_active:
            self.note_refused(f"transition {request.transition.id} asked for over the network: refused")
            response.success = False
            return response
        try:
            return self._serve_change(request, response)
        except Exception as error:  # rclpy raises for an unknown transition, and leaves the client waiting
            self.health.note_failure(error)
            response.success = False
            return response

    def _attempt(self, act: Callable[[], None]) -> TransitionCallbackReturn:
        # rclpy swallows exceptions in transitions, so keep and log them here.
        try:
            act()
        except Exception as error:
            is_expected = isinstance(error, OpcError)
            self._refusal = error if isinstance(error, OpcError) else OpcError(f"{type(error).__name__}: {error}")
            if not is_expected:
                self.get_logger().fatal(traceback.format_exc())
            elif not self._is_starting_itself:
                self.get_logger().error(str(error))
            return TransitionCallbackReturn.FAILURE
        return TransitionCallbackReturn.SUCCESS

    def _declare(self) -> None:
        self.declare_parameter(
            "autostart",
            True,
            ParameterDescriptor(description="configure and activate without a lifecycle manager", read_only=True),
        )
        self.declare_parameter(
            "config",
            "",
            ParameterDescriptor(description="YAML file with values that replace the defaults", read_only=True),
        )
        path = self.get_parameter("config").value
        base = load_settings(Path(path), self.NAME, self.SETTINGS) if path else self.SETTINGS()
        self._check_overrides(base)
        for field in dataclasses.fields(self.SETTINGS):
            is_fixed = self.IS_GUARDED or field.name in TRUST_SETTINGS
            self.declare_parameter(
                field.name, _to_parameter(getattr(base, field.name)), _describe(field, is_fixed=is_fixed)
            )
        for name in self._parameter_overrides:
            if not self.has_parameter(name) and not name.startswith(_OF_ROS):
                self._tell_unknown(name)

    def _check_overrides(self, base: S) -> None:
        """Validate the parameters given at startup here, so that errors have one form; ROS would only name ranges."""
        given = {name: parameter.value for name, parameter in self._parameter_overrides.items()}
        names = [field.name for field in dataclasses.fields(self.SETTINGS)]
        values = {name: given.get(name, _to_parameter(getattr(base, name))) for name in names}
        document = {name: list(value) if _is_array(value) else value for name, value in values.items()}
        parse_config(document, self.SETTINGS, where="parameters")

    def _tell_unknown(self, name: str) -> None:
        """Warn about a parameter that is not ours, as in files for several nodes; refuse an apparent misspelling."""
        known = [field.name for field in dataclasses.fields(self.SETTINGS)]
        if meant := difflib.get_close_matches(name, known, n=1, cutoff=0.8):
            raise ConfigError(f"unknown parameter {name!r}, did you mean {meant[0]!r}? Known are {', '.join(known)}")
        self.get_logger().warning(f"parameter {name!r} is not one of this node's, and is not read")

    def _read_settings(self) -> S:
        return self._parse({})

    def _parse(self, changes: dict[str, Any]) -> S:
        names = [field.name for field in dataclasses.fields(self.SETTINGS)]
        values = {name: changes.get(name, self.get_parameter(name).value) for name in names}
        document = {name: list(value) if _is_array(value) else value for name, value in values.items()}
        return typing.cast(S, parse_config(document, self.SETTINGS, where="parameters"))

    def _check_change(self, parameters: list[Parameter]) -> SetParametersResult:
        if self.IS_GUARDED and self._state_machine.current_state[1] != "unconfigured":
            reason = f"{', '.join(each.name for each in parameters)}: cannot change while the node runs; restart it"
            self.note_refused(f"parameter asked for over the network: {reason}")
            return SetParametersResult(successful=False, reason=reason)
        names = {field.name for field in dataclasses.fields(self.SETTINGS)}
        changes = {parameter.name: parameter.value for parameter in parameters if parameter.name in names}
        if not changes:
            return SetParametersResult(successful=True)
        if self._state_machine.current_state[1] != "unconfigured":
            reason = f"{', '.join(changes)} can only be set while unconfigured: deactivate and clean up first"
            return SetParametersResult(successful=False, reason=reason)
        try:
            self._parse(changes)
        except ConfigError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)


def load_settings(path: Path, node: str, kind: type[S]) -> S:
    """A node's settings from a plain YAML file, or from one in ROS's form with `ros__parameters`."""
    document = parse_yaml(read_bytes(path), where=str(path))
    if isinstance(document, dict) and any(_is_in_ros_form(value) for value in document.values()):
        meant = {name: value for name, value in document.items() if name.rpartition("/")[2] in (node, "**", "*")}
        document = {key: item for value in meant.values() for key, item in value["ros__parameters"].items()}
    return parse_config(document, kind, where=str(path))


def _is_in_ros_form(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("ros__parameters"), dict)


def describe_settings(kind: type) -> str:
    """One line for each parameter: name, default and meaning."""
    lines = []
    for field in dataclasses.fields(kind):
        default = _to_parameter(field.default)
        lines.append(f"  {field.name} ({default!r}): {field.metadata.get('meaning', '')}")
    return "\n".join(lines)


def _to_parameter(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def _is_array(value: object) -> bool:
    return not isinstance(value, str | bytes) and hasattr(value, "__iter__")


def _describe(field: dataclasses.Field[Any], *, is_fixed: bool) -> ParameterDescriptor:
    """Describe a parameter; with dynamic typing, so that 10 passes for 10.0 and all errors come from one place."""
    descriptor = ParameterDescriptor(
        description=field.metadata.get("meaning", ""), dynamic_typing=True, read_only=is_fixed
    )
    low, high = field.metadata.get("low"), field.metadata.get("high")
    text = [f"{word} {bound:g}" for word, bound in (("from", low), ("to", high)) if bound is not None]
    descriptor.additional_constraints = " ".join(text)
    _add_range(descriptor, field.default, low, high)
    return descriptor


def _add_range(descriptor: ParameterDescriptor, default: object, low: float | None, high: float | None) -> None:
    """Add a range for tools that draw sliders; an open end becomes the type's limit."""
    if low is None and high is None:
        return
    if isinstance(default, float):
        start, end = (-LARGEST_FLOAT if low is None else float(low)), (LARGEST_FLOAT if high is None else float(high))
        descriptor.floating_point_range = [FloatingPointRange(from_value=start, to_value=end, step=0.0)]
    elif isinstance(default, int) and not isinstance(default, bool):
        start, end = (-LARGEST_INT if low is None else int(low)), (LARGEST_INT if high is None else int(high))
        descriptor.integer_range = [IntegerRange(from_value=start, to_value=end, step=1)]
