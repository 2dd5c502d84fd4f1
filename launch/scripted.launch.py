"""A fake arm without physics and a recorder for each robot, to check that a machine works."""

from launch import LaunchDescription

from opc_ros.ros.launch_system import describe_system


def generate_launch_description() -> LaunchDescription:
    return describe_system("scripted")
