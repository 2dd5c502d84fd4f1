"""ROS 2 nodes: thin shells around the rest of the package."""
