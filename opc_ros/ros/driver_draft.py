"""What an arm's driver publishes, as lines of an arm file and as messages for the user."""

from __future__ import annotations

from dataclasses import replace

from opc_ros.arms.arm_file import DriverDraft
from opc_ros.ros.arm_survey import ArmSurvey

_FINGERS = ("gripper", "finger", "jaw", "width")


def draft_driver(
    survey: ArmSurvey, plain: DriverDraft, urdf_joints: tuple[str, ...], *, wants_gripper: str | None = None
) -> tuple[DriverDraft, list[str]]:
    """Replace defaults by what was found on the graph, with one line for each saying what was found or missing."""
    driver, seen = plain, []
    above = f"/{plain.namespace.strip('/')}/"

    def short(name: str) -> str:
        return name.removeprefix(above)

    for topic, names in survey.joint_states.items():
        arm = _arm_joints(names, urdf_joints)
        if arm:
            driver = replace(driver, joint_states=short(topic), joint_names=arm)
            seen.append(f"seen: joint states of {', '.join(arm)} on {topic}")
            finger = next((name for name in names if any(word in name.lower() for word in _FINGERS)), "")
            driver = replace(driver, gripper_joint=finger or driver.gripper_joint)
            break
    else:
        seen.append(f"not seen: joint states of {len(urdf_joints)} joints below {above}")
    if survey.controllers:
        controller, by = survey.controllers[0]
        driver = replace(driver, controller=short(controller), controller_by=by)
        seen.append(f"seen: controller {controller}, by {by}")
    else:
        seen.append(f"not seen: a trajectory controller below {above}")
    grippers = [item for item in survey.grippers if wants_gripper in (None, item[1])]
    if grippers:
        action, kind = grippers[0]
        driver = replace(driver, gripper_command=short(action), gripper_driver=kind)
        seen.append(f"seen: gripper {action}, {kind}")
    else:
        seen.append(f"not seen: a gripper action below {above}")
    if survey.cameras:
        topic, is_compressed = survey.cameras[0]
        driver = replace(driver, camera=short(topic), is_camera_compressed=is_compressed)
        seen.append(f"seen: camera {topic}")
    else:
        seen.append("not seen: a camera")
    return driver, seen


def _arm_joints(names: tuple[str, ...], urdf_joints: tuple[str, ...]) -> tuple[str, ...]:
    """The driver's joint names in the URDF's order: equal, with a prefix or suffix, or all if their number fits."""
    matched = [[name for name in names if name == wanted or name.endswith(f"_{wanted}")] for wanted in urdf_joints]
    if all(len(found) == 1 for found in matched):
        return tuple(found[0] for found in matched)
    arm = [name for name in names if not any(word in name.lower() for word in _FINGERS)]
    return tuple(sorted(arm)) if len(arm) == len(urdf_joints) else ()
