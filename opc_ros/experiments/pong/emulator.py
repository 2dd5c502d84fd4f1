"""One game of Atari Pong, played point by point: small images in, stay, up or down out."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from opc_ros.errors import SetupError
from opc_ros.task import PONG

if TYPE_CHECKING:
    from ale_py import ALEInterface

HEIGHT, WIDTH = 40, 40
BALL, BALL_BEFORE, PADDLES = range(3)  # an image's channels: the ball now and one decision ago, both paddles
INWARD = 10  # cells by which a paddle of one decision ago is moved towards the middle, where no paddle can be
FRAMES_PER_DECISION = 4
FRAMES_PER_SECOND = 60
MOST_DECISIONS = PONG.max_steps  # 27 seconds; a longer rally is considered endless and is not won

ACTIONS = ((0.0,), (1.0,), (-1.0,))  # stay, up, down, as the task defines them

_TOP, _BOTTOM = 34, 194  # screen rows that the ball moves in
_FIELD_GREY, _BALL_GREY = 87, 236  # grey values in between are paddles


class PongGame:
    """An emulator that plays single points; which actions stick depends only on the generator it is given.

    The emulator's own sticky actions stay off: the action before a restored start would stick to it.
    """

    def __init__(self) -> None:
        self._ale = open_emulator()
        self._moves = _moves()
        self._stickiness = 0.0
        self._rng = np.random.default_rng(0)
        self._screen = np.empty((210, 160), dtype=np.uint8)
        self._image = np.zeros((HEIGHT, WIDTH, 3), dtype=np.uint8)
        self._paddles = np.zeros((HEIGHT, WIDTH), dtype=np.uint8)
        self._last = 0
        self._decisions = 0
        self._points = 0

    @property
    def image(self) -> np.ndarray:
        """The image before the next decision, (H, W, 3) uint8; a new array each time."""
        return self._image

    @property
    def decisions(self) -> int:
        return self._decisions

    @property
    def is_over(self) -> bool:
        return self._points != 0 or self._decisions >= MOST_DECISIONS

    @property
    def points(self) -> int:
        """1 won, -1 lost, 0 still open."""
        return self._points

    def begin(self, start: Any, stickiness: float, rng: np.random.Generator) -> None:
        """Go to a start, at rest; from then on, `rng` decides when actions stick."""
        self._ale.restoreState(start)
        self._stickiness, self._rng = stickiness, rng
        self._last = self._decisions = self._points = 0
        self._ale.act(self._moves[0])  # a restored state has no screen: the next frame draws one
        ball, paddles = self._look()
        self._paddles = paddles
        self._image = np.stack([ball, ball, _draw_both(paddles, paddles)], axis=2)

    def decide(self, action: int) -> None:
        """Hold one action for four frames; in each of them the previous action may stick instead."""
        for _ in range(FRAMES_PER_DECISION):
            if not self._stickiness or self._rng.random() >= self._stickiness:
                self._last = action
            self._points = int(self._ale.act(self._moves[self._last]))
            if self._points:
                break
        self._decisions += 1
        ball, paddles = self._look()
        self._image = np.stack([ball, self._image[:, :, BALL], _draw_both(paddles, self._paddles)], axis=2)
        self._paddles = paddles

    def _look(self) -> tuple[np.ndarray, np.ndarray]:
        """How much of each cell of the field is ball and how much is paddle, both (H, W) uint8."""
        self._ale.getScreenGrayscale(self._screen)
        field = self._screen[_TOP:_BOTTOM]
        return _shrink(field == _BALL_GREY), _shrink((field > _FIELD_GREY) & (field < _BALL_GREY))


def _shrink(mask: np.ndarray) -> np.ndarray:
    """The fraction of each cell that is covered, from 0 to 255."""
    covered = mask.astype(np.uint8) * np.uint8(255)
    return np.asarray(cv2.resize(covered, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA), dtype=np.uint8)


def _draw_both(now: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Paddles now and before in one channel: a released paddle still moves on by more than half its height."""
    drawn = now.copy()
    middle = WIDTH // 2
    drawn[:, INWARD:middle] += before[:, : middle - INWARD]
    drawn[:, middle:-INWARD] += before[:, middle + INWARD :]
    return drawn


@cache
def make_starts(count: int, seed: int) -> tuple[Any, ...]:
    """Emulator states shortly after a serve, from games of a random player; a smaller count gives the first of them.

    After a reset the ball always takes the same path, however long one waits. Later in a game the serve goes up or
    down, to either side, and finds both paddles anywhere.
    """
    ale, moves, rng = open_emulator(), _moves(), np.random.default_rng(seed)
    starts: list[Any] = []
    frames, wait, move = 0, _frames_to_serve(rng), 0
    while len(starts) < count:
        if frames % FRAMES_PER_DECISION == 0:
            move = int(rng.integers(len(moves)))
        points = ale.act(moves[move])
        frames += 1
        wait -= 1
        if wait == 0:
            starts.append(ale.cloneState())
        if ale.game_over():
            ale.reset_game()
        if points:
            wait = _frames_to_serve(rng)
    return tuple(starts)


def _frames_to_serve(rng: np.random.Generator) -> int:
    """The ball comes back 62 frames after a point, 58 after a reset; a start is up to a third of a second later."""
    return 62 + int(rng.integers(20))


def open_emulator() -> ALEInterface:
    """Pong from ale-py's own ROM, without sticky actions."""
    try:
        from ale_py import ALEInterface, LoggerMode, roms
    except ImportError:
        raise SetupError("Pong needs ale-py, which holds its ROM: pip install 'opc-ros[pong]'") from None
    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setInt("random_seed", 0)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.setInt("frame_skip", 1)
    ale.loadROM(roms.get_rom_path("pong"))
    return ale


def _moves() -> tuple[Any, ...]:
    """The joystick positions for ACTIONS; in this game right is up."""
    from ale_py import Action

    return Action.NOOP, Action.RIGHT, Action.LEFT
