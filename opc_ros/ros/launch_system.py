"""Turn a system's node specs into a launch description for `ros2 launch`."""

from __future__ import annotations

from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import DeclareLaunchArgument, EmitEvent, OpaqueFunction, RegisterEventHandler
from launch.event_handlers import OnProcessExit
from launch.events import Shutdown
from launch.events.process import ProcessExited
from launch.logging import get_logger
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from opc_ros.bringup.nodes import NodeSpec
from opc_ros.bringup.supervisor import PATIENCE
from opc_ros.bringup.system import System
from opc_ros.bringup.systems import find_system


def describe_system(name: str) -> LaunchDescription:
    """Declare the system's arguments and start its nodes; a node that fails ends the others, as with `opc up`."""
    system = find_system(name)
    declared = [DeclareLaunchArgument(a.name, default_value=a.default, description=a.meaning) for a in system.arguments]
    return LaunchDescription([*declared, OpaqueFunction(function=lambda context: _actions(system, context))])


def _actions(system: System, context: LaunchContext) -> list[LaunchDescriptionEntity]:
    given = {a.name: LaunchConfiguration(a.name).perform(context) for a in system.arguments}
    # PushRosNamespace in an including launch file also sets the lab's namespace.
    given["namespace"] = given["namespace"] or context.launch_configurations.get("ros_namespace", "")
    for line in system.prepare(given):
        get_logger("opc_ros").info(line)
    return [*map(_node, system.nodes(given)), RegisterEventHandler(OnProcessExit(on_exit=_end_after_failure))]


def _node(spec: NodeSpec) -> Node:
    return Node(
        package="opc_ros",
        executable=spec.program,
        namespace=f"/{spec.namespace}",  # absolute, so that nothing is prepended again
        parameters=[dict(spec.parameters), *([spec.params_file] if spec.params_file else [])],
        ros_arguments=["--log-level", spec.log_level] if spec.log_level else [],
        remappings=list(spec.remappings.items()),
        additional_env=dict(spec.environment),
        output="screen",
        # As with `opc up`: a node that runs an episode finishes it first.
        sigterm_timeout=str(PATIENCE[0][1]),
        sigkill_timeout=str(PATIENCE[1][1]),
    )


def _end_after_failure(event: ProcessExited, context: LaunchContext) -> EmitEvent | None:
    if event.returncode == 0 or context.is_shutdown:
        return None
    return EmitEvent(event=Shutdown(reason=f"{event.process_name} failed with exit {event.returncode}"))
