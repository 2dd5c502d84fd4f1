from __future__ import annotations

import time

import numpy as np
import psutil
import pytest

from opc_ros.episode import Frame
from opc_ros.errors import ArmLost
from sim_bridge.camera_process import CameraProcess
from sim_bridge.world import World
from sim_bridge.worlds import find_world

SPEC = find_world("train")


def wait_for_frame(camera: CameraProcess, deadline_s: float = 30.0) -> Frame:
    end_s = time.monotonic() + deadline_s
    while (frame := camera.take()) is None:
        assert time.monotonic() < end_s, "no image in time"
        time.sleep(0.01)
    return frame


def test_the_image_is_that_of_the_world_it_shows():
    camera = CameraProcess(SPEC, image_size=48, quality=95)
    try:
        with World(SPEC, image_size=48) as world:
            world.lay_out(3)
            camera.lay_out(3)
            world.command_joints(world.joint_positions_rad() + 0.1)
            world.command_aperture(0.0)
            world.advance(0.5)
            assert camera.ask(world.pose(), stamp_ns=7)
            assert not camera.ask(world.pose(), stamp_ns=8)
            frame = wait_for_frame(camera)
            assert frame.stamp_ns == 7
            assert frame.data == Frame.from_image(world.render(), 7, quality=95).data
            assert camera.ask(world.pose(), stamp_ns=9)
    finally:
        camera.close()


def test_a_camera_that_died_is_noticed():
    camera = CameraProcess(SPEC, image_size=48, quality=95)
    (child,) = [p for p in psutil.Process().children() if p.pid == camera._process.pid]
    child.kill()
    child.wait()
    with pytest.raises(ArmLost, match=f"camera process {child.pid} has ended"):
        wait_for_frame(camera)
    camera.close()


def test_showing_another_worlds_pose_gives_its_pixels():
    with World(SPEC, image_size=48) as world, World(SPEC, image_size=48) as other:
        world.lay_out(1)
        other.lay_out(1)
        world.command_joints(world.joint_positions_rad() - 0.1)
        world.advance(0.5)
        assert not np.array_equal(world.render(), other.render())
        other.show(world.pose())
        assert np.array_equal(world.render(), other.render())
