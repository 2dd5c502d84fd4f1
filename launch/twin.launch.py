"""Twin, recorder and policy runner for each arm; one scorer and one scheduler."""

from launch import LaunchDescription

from opc_ros.ros.launch_system import describe_system


def generate_launch_description() -> LaunchDescription:
    return describe_system("twin")
