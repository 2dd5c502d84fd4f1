"""One simulated arm over a tray of objects: physics, joints and camera."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opc_ros.arms.kinematics import ToolPose
from opc_ros.arms.settings import ArmSettings
from opc_ros.errors import ArmError
from opc_ros.grasp import ToolState
from sim_bridge.arm_model import OPEN_APERTURE_M, SQUARE_MOUNT, GripperMount
from sim_bridge.bullet import connect, pybullet
from sim_bridge.camera import STANDARD_CAMERA, CameraModel, CameraMount
from sim_bridge.camera_image import ImageMaker
from sim_bridge.randomization import Level, Variation, draw_variation
from sim_bridge.scene import Scene
from sim_bridge.surroundings import TRAY_RIM_M

STEP_S = 1 / 240

_POSITION_GAIN = 0.3  # fraction of the remaining distance that a motor covers in one step
_FINGER_FORCE_N = 25.0
_FINGER_SPEED_M_S = 0.2
_SETTLE_STEPS = 60
_SETTLE_ROUNDS = 6
_STILL_M_S = 0.03


@dataclass(frozen=True, slots=True)
class WorldSpec:
    """Which world: its objects, its randomisation level, and what its arm, camera and gripper are."""

    name: str
    object_set: str = "train"
    level: Level = Level.NONE
    camera: CameraMount = STANDARD_CAMERA
    gripper: GripperMount = SQUARE_MOUNT
    arm: ArmSettings = field(default=ArmSettings())


@dataclass(frozen=True, slots=True, eq=False)
class ScenePose:
    """Where everything that moves is at one moment."""

    joints: np.ndarray  # (J,), of arm and fingers, in the order of the composed URDF
    objects: np.ndarray  # (K, 7), position and quaternion of each object in the room


class World:
    """A physics client of its own; any number of worlds can exist side by side in one process."""

    def __init__(self, spec: WorldSpec, *, image_size: int = 472) -> None:
        self.spec = spec
        self.kinematics = spec.arm.kinematics()
        self._model = self.kinematics.model
        self._camera = spec.camera.calibrate(image_size)
        self._client: Any = connect()
        self._stage: Any = connect()
        self._client.setGravity(0, 0, -9.81)
        self._client.setPhysicsEngineParameter(
            fixedTimeStep=STEP_S, numSolverIterations=30, deterministicOverlappingPairs=1, enableFileCaching=1
        )
        self._scene = Scene(
            self._client, self._stage, spec.arm, object_set=spec.object_set, level=spec.level, mount=spec.gripper
        )
        self._arm, self._joints = self._scene.bodies.arm, self._scene.bodies.joints
        self._fingers = self._scene.bodies.fingers
        self._couple_fingers()
        self._images = ImageMaker(self._client, self._stage, spec.camera, image_size)
        self._variation = Variation()
        self._pending: deque[tuple[int, np.ndarray]] = deque()  # joint commands not yet arrived, with their step
        self._steps = 0
        self._owed_s = 0.0
        self._is_open = True

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the physics client; closing twice is fine."""
        if self._is_open:
            self._is_open = False
            self._client.disconnect()
            self._stage.disconnect()

    @property
    def time_s(self) -> float:
        """Simulated time since the layout began."""
        return self._steps * STEP_S

    @property
    def camera(self) -> CameraModel:
        """The camera as calibrated; heavy randomisation shifts the arm a little relative to it, rough the camera."""
        return self._camera

    @property
    def home(self) -> ToolPose:
        """Where an episode starts in the present layout."""
        start, offset = self.spec.arm.start, self._variation.home_offset
        return ToolPose(start.x_m + offset.x_m, start.y_m + offset.y_m, start.z_m, start.yaw_rad + offset.yaw_rad)

    def lay_out(self, seed: int) -> None:
        """Arm at its start pose, gripper open, objects dropped and at rest; everything follows from the seed."""
        self._refuse_if_closed()
        looks, places, flaws = (np.random.default_rng((seed, stream)) for stream in range(3))
        bodies = self._scene.bodies
        self._scene.clear()
        self._variation = draw_variation(self.spec.level, len(bodies.objects), looks)
        self._scene.arrange(self._variation)
        self._put_arm(np.array(self.spec.arm.body.parked_rad))
        self._scene.drop(self._variation, places)
        self._settle(places)
        self._put_arm(self.kinematics.solve(self.home))
        self._scene.rest()
        self._images.begin(self._variation, flaws)
        self._steps, self._owed_s = 0, 0.0

    def joint_positions_rad(self) -> np.ndarray:
        """Measured angles of the arm's joints, (J,)."""
        return np.array([state[0] for state in self._client.getJointStates(self._arm, self._joints)])

    def joint_velocities_rad_s(self) -> np.ndarray:
        """Measured speeds of the arm's joints, (J,)."""
        return np.array([state[1] for state in self._client.getJointStates(self._arm, self._joints)])

    def command_joints(self, positions_rad: np.ndarray) -> None:
        """Send the joints to angles (J,), within the model's speed and torque limits."""
        targets = np.asarray(positions_rad, dtype=np.float64)
        if targets.shape != (self._model.joints,) or not np.isfinite(targets).all():
            raise ArmError(f"joint command {targets.tolist()}: expected {self._model.joints} finite angles")
        delay = round(self._variation.touch.latency_s / STEP_S)
        if delay:
            self._pending.append((self._steps + delay, targets))
        else:
            self._drive_joints(targets)

    def command_aperture(self, aperture_m: float) -> None:
        """Send both fingers to an opening between 0 (closed) and 0.08 m."""
        wanted = min(max(aperture_m, 0.0), OPEN_APERTURE_M)
        # Play: the fingers come to rest short of the commanded position, in both directions.
        play = self._variation.touch.gripper_play_m
        wanted += play if wanted < OPEN_APERTURE_M / 2 else -play
        for joint in self._fingers:
            self._client.setJointMotorControl2(
                self._arm,
                joint,
                pybullet.POSITION_CONTROL,
                targetPosition=wanted / 2,
                force=_FINGER_FORCE_N,
                maxVelocity=_FINGER_SPEED_M_S,
            )

    def advance(self, seconds: float) -> None:
        """Let simulated time pass in steps of 1/240 s; a remainder below one step is kept for the next call."""
        self._refuse_if_closed()
        self._owed_s += seconds
        steps = int(self._owed_s / STEP_S + 1e-9)
        self._owed_s -= steps * STEP_S
        step = self._client.stepSimulation
        for _ in range(steps):
            while self._pending and self._pending[0][0] <= self._steps:
                self._drive_joints(self._pending.popleft()[1])
            step()
            self._steps += 1

    def tool_state(self) -> ToolState:
        """The tool state as measured by the arm's own sensors."""
        pose = self.kinematics.locate_tool(self.joint_positions_rad())
        aperture = sum(state[0] for state in self._client.getJointStates(self._arm, self._fingers))
        return ToolState(pose.x_m, pose.y_m, pose.z_m, pose.yaw_rad, aperture_m=max(float(aperture), 0.0))

    def render(self) -> np.ndarray:
        """The camera's current image: (H, W, 3) uint8, RGB."""
        self._refuse_if_closed()
        return self._images.take()

    def pose(self) -> ScenePose:
        """Everything another world of the same spec and layout needs to show the same scene."""
        client, objects = self._client, self._scene.bodies.objects
        joints = client.getJointStates(self._arm, range(client.getNumJoints(self._arm)))
        return ScenePose(
            joints=np.array([state[0] for state in joints]),
            objects=np.array([np.concatenate(client.getBasePositionAndOrientation(body)) for body in objects]),
        )

    def show(self, pose: ScenePose) -> None:
        """Put everything where it is in another world, to take its image."""
        self._refuse_if_closed()
        for joint, angle in enumerate(pose.joints.tolist()):
            self._client.resetJointState(self._arm, joint, angle)
        for body, place in zip(self._scene.bodies.objects, pose.objects.tolist(), strict=True):
            self._client.resetBasePositionAndOrientation(body, place[:3], place[3:])

    def is_holding(self) -> bool:
        """Whether any object hangs in the gripper, clear of the tray; meaningful after lifting."""
        fingers = set(self._fingers)
        for body in self._scene.bodies.objects:
            lowest = self._client.getAABB(body)[0][2]
            if lowest < TRAY_RIM_M:
                continue
            touching = {contact[3] for contact in self._client.getContactPoints(self._arm, body)}
            if touching & fingers:
                return True
        return False

    def objects_base(self) -> list[np.ndarray]:
        """Corners (M, 3) of each object in the base frame: known only to scripted policies."""
        offset = self._variation.arm_offset
        cosine, sine = np.cos(offset.yaw_rad), np.sin(offset.yaw_rad)
        room_from_base = np.array([[cosine, -sine, 0], [sine, cosine, 0], [0, 0, 1]])
        return [(c - (offset.x_m, offset.y_m, 0.0)) @ room_from_base for c in self._scene.object_corners()]

    def _settle(self, rng: np.random.Generator) -> None:
        """Step until the objects have settled; any that missed the tray are dropped again."""
        for _ in range(_SETTLE_ROUNDS):
            for _ in range(_SETTLE_STEPS):
                self._client.stepSimulation()
            for body, position in zip(self._scene.bodies.objects, self._scene.object_positions(), strict=True):
                if self._scene.is_outside_tray(position, self._variation):
                    self._scene.drop_one(body, 0.12, self._variation, rng)
            if self._scene.fastest_object_m_s() < _STILL_M_S:
                return

    def _put_arm(self, positions_rad: np.ndarray) -> None:
        """Put the arm at rest at these angles, fingers open, with motors holding it there."""
        self._pending.clear()
        for joint, angle in zip(self._joints, positions_rad.tolist(), strict=True):
            self._client.resetJointState(self._arm, joint, angle, 0.0)
        self._drive_joints(positions_rad)
        for joint in self._fingers:
            self._client.resetJointState(self._arm, joint, OPEN_APERTURE_M / 2, 0.0)
        self.command_aperture(OPEN_APERTURE_M)

    def _drive_joints(self, positions_rad: np.ndarray) -> None:
        model, drive = self._model, self._client.setJointMotorControl2
        limited = np.clip(positions_rad, model.lower_rad, model.upper_rad).tolist()
        torques, speeds = model.effort_nm.tolist(), model.velocity_rad_s.tolist()
        for joint, angle, torque, speed in zip(self._joints, limited, torques, speeds, strict=True):
            drive(
                self._arm,
                joint,
                pybullet.POSITION_CONTROL,
                targetPosition=angle,
                force=torque,
                positionGain=_POSITION_GAIN,
                maxVelocity=speed,
            )

    def _couple_fingers(self) -> None:
        """A gear couples both fingers, so that they meet in the middle whatever they touch first."""
        left, right = self._fingers
        gear = self._client.createConstraint(
            self._arm, left, self._arm, right, pybullet.JOINT_GEAR, (0, 1, 0), (0, 0, 0), (0, 0, 0)
        )
        self._client.changeConstraint(gear, gearRatio=-1, erp=0.3, maxForce=200)
        for finger in self._fingers:
            self._client.changeDynamics(self._arm, finger, lateralFriction=1.0, spinningFriction=0.003)

    def _refuse_if_closed(self) -> None:
        if not self._is_open:
            raise ArmError(f"world {self.spec.name}: closed; make a new one")
