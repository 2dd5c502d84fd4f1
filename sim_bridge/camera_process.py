"""A world's camera in a process of its own: rendering takes longer than an arm may wait for its next command."""

from __future__ import annotations

import multiprocessing
import signal
from multiprocessing.connection import Connection

from opc_ros.episode import Frame
from opc_ros.errors import ArmLost
from sim_bridge.priority import set_niceness
from sim_bridge.world import ScenePose, World, WorldSpec


class CameraProcess:
    """Shows the poses it is given in a world of its own and returns images, one at a time."""

    def __init__(self, spec: WorldSpec, *, image_size: int, quality: int) -> None:
        # A fork would inherit ROS's threads and locks.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, spec, image_size, quality), name=f"camera of {spec.name}", daemon=True
        )
        self._process.start()
        theirs.close()
        self._is_busy = False

    def lay_out(self, seed: int) -> None:
        self._send(seed)

    def ask(self, pose: ScenePose, stamp_ns: int) -> bool:
        """Request an image unless one is pending; return whether it was requested."""
        if self._is_busy:
            return False
        self._send((pose, stamp_ns))
        self._is_busy = True
        return True

    def take(self) -> Frame | None:
        """The requested image once it is ready; never waits."""
        try:
            if not self._pipe.poll():
                return None
            frame = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise self._ended() from error
        self._is_busy = False
        return frame if isinstance(frame, Frame) else None

    def close(self) -> None:
        self._pipe.close()
        self._process.join(timeout=2.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _send(self, request: object) -> None:
        try:
            self._pipe.send(request)
        except OSError as error:
            raise self._ended() from error

    def _ended(self) -> ArmLost:
        return ArmLost(f"camera process {self._process.pid} has ended; start the twin again")


def _serve(pipe: Connection, spec: WorldSpec, image_size: int, quality: int) -> None:
    """An int lays out a bin, a pose takes an image; the process ends when the pipe closes, and so with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A late image is a nuisance, a late stop is not, so do not inherit the parent's priority.
    set_niceness(0)
    with World(spec, image_size=image_size) as world:
        while True:
            try:
                request = pipe.recv()
                if isinstance(request, int):
                    world.lay_out(request)
                    continue
                pose, stamp_ns = request
                world.show(pose)
                pipe.send(Frame.from_image(world.render(), stamp_ns, quality=quality))
            except (EOFError, OSError):
                return
