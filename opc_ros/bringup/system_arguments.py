"""Arguments that several systems share."""

from __future__ import annotations

from opc_ros.bringup.system import Argument

ROBOTS = Argument("robots", "arm1", "comma-separated names of the robots; each gets a namespace")
LAB_ROBOTS = Argument("robots", "", "comma-separated names of the robots; empty: all of the lab file")
MACHINE = Argument("machine", "", "which machine of the lab file this is; empty: by host name, or the only one")
STORE = Argument("store", "store", "folder of the validation store")
TWIN = (
    Argument("world", "pseudo_real", "world of the twins; sim_bridge/worlds.py names them"),
    Argument("image_size", "472", "width and height of the images in pixels"),
    Argument("real_time_factor", "1", "speed of the twin relative to real time"),
    Argument("camera_hz", "10", "images per second"),
    Argument("joint_state_hz", "100", "joint states per second; lower it on a busy machine"),
    Argument("seed", "0", "of the first layout of the first robot"),
)
DEPLOYMENT = Argument("deployment", "deployment", "folder of keys, queue and audit log, where the scheduler runs")
LOOP = (
    Argument("store", "", "folder of the validation store; empty: the lab file's"),
    Argument("candidates", "candidates", "folder of registered candidates"),
    Argument("scores", "scores", "folder of rankings and their reports"),
    DEPLOYMENT,
    Argument("state", "robots", "folder with one folder for each robot: its public keys and journal"),
    Argument("rescore_s", "0", "how often the scorer looks for new episodes and candidates; 0: only when asked"),
    Argument("console", "8640", "port of the live page, or one of the next few if it is taken; 0: no page"),
)
NODE_OPTIONS = (
    Argument("namespace", "", "everything of the lab is below it, for labs that share a domain; empty: $OPC_NAMESPACE"),
    Argument("params_file", "", "YAML file with `ros__parameters`, which override everything else"),
    Argument("log_level", "", "of all nodes: debug, info, warn, error or fatal; empty: info"),
    Argument("use_sim_time", "false", "true: nodes take their time from /clock; those that guard arms never do"),
)
POLICY = Argument("policy", "better", "behaviour policy that collects; sim_bridge/behaviour.py names them")


def lab_file(default: str) -> Argument:
    return Argument("lab", default, "robots, arms, cameras, rungs and stores: a path, or a file of config/")


def rule_files(gate: str, scheduler: str) -> tuple[Argument, ...]:
    """Arguments for the files that a lab's system reads besides the lab file."""
    return (
        Argument("gate_config", gate, "rules of the gate: a path, or a file of config/"),
        Argument("scheduler_config", scheduler, "rules of the scheduler: a path, or a file of config/"),
        Argument("arm_config", "", "one arm file for all robots; empty: as the lab file says"),
    )
