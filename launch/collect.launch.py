"""A twin behind KUKA topics, a recorder and a behaviour policy for each robot, to collect episodes through ROS."""

from launch import LaunchDescription

from opc_ros.ros.launch_system import describe_system


def generate_launch_description() -> LaunchDescription:
    return describe_system("collect")
