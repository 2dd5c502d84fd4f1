"""The recorder's services: begin, end, discard and label, and buttons for panels that cannot send arguments."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from opc_interfaces.msg import Label as LabelMsg
from opc_interfaces.srv import BeginEpisode, DiscardEpisode, EndEpisode, LabelEpisode
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.lifecycle import LifecycleNode
from rclpy.task import Future
from std_srvs.srv import Trigger

from opc_ros.episode import Label, LabelSource
from opc_ros.errors import OpcError, RecordingError
from opc_ros.recording.recorder import Recorder
from opc_ros.ros import convert
from opc_ros.ros.services import create_service
from opc_ros.workflows.labelling import HOW_TO_LABEL, SignedLabels, unsigned_persons_label


@dataclass(frozen=True, slots=True)
class RecorderAnswer:
    """A service's answer."""

    message: str
    episode_id: str = ""
    revision: int = 0


Work = Coroutine[Any, Any, RecorderAnswer]


class RecorderServices:
    """Offers the services; an answer that depends on the disk is sent once the disk is done."""

    def __init__(
        self,
        node: LifecycleNode,
        recorder: Recorder,
        *,
        button_labeller: str,
        signed_labels: SignedLabels | None,
        is_active: Callable[[], bool],
        outcome_of: Callable[[str], Future],
        soon: Callable[[Callable[[], None]], None],
    ) -> None:
        """`outcome_of` returns the future outcome of an episode; `soon` has the node's thread call a function."""
        self._node = node
        self._recorder = recorder
        self._button_labeller = button_labeller
        self._signed_labels = signed_labels
        self._is_active = is_active
        self._outcome_of = outcome_of
        self._soon = soon

    def offer(self, held: ExitStack) -> None:
        """Create the services; `held` removes them again."""
        buttons: dict[str, Callable[[], Work]] = {
            "begin": partial(self._begin, "", "", ""),
            "success": lambda: self._end(self._press(is_success=True)),
            "failure": lambda: self._end(self._press(is_success=False)),
            "end": lambda: self._end(Label()),
            "discard": partial(self._discard, "button"),
            "last_succeeded": lambda: self._label_last(is_success=True),
            "last_failed": lambda: self._label_last(is_success=False),
        }
        services: dict[str, tuple[type, Callable[[Any], Work]]] = {
            "begin": (BeginEpisode, lambda r: self._begin(r.episode_id, r.behaviour_policy, r.object_set)),
            "end": (EndEpisode, lambda r: self._end(_label_of_person(r.label, r.labeller))),
            "discard": (DiscardEpisode, lambda r: self._discard(r.reason)),
            "label": (LabelEpisode, self._label_stored),
            **{f"button/{name}": (Trigger, partial(_ignore_request, press)) for name, press in buttons.items()},
        }
        # A service that waits for the disk must not block the callbacks that supply it.
        group = ReentrantCallbackGroup()
        for name, (kind, work) in services.items():
            serve = partial(self._serve, work)
            service = create_service(self._node, kind, f"recorder/{name}", serve, callback_group=group)
            held.callback(self._node.destroy_service, service)

    async def _serve(self, work: Callable[[Any], Work], request: Any, response: Any) -> Any:
        try:
            if not self._is_active():
                raise RecordingError("the recorder is inactive: activate it first")
            answer = await work(request)
        except OpcError as error:
            response.success, response.message = False, str(error)
            return response
        response.success, response.message = True, answer.message
        for field in ("episode_id", "revision"):
            if hasattr(response, field):
                setattr(response, field, getattr(answer, field))
        return response

    async def _begin(self, episode_id: str, behaviour_policy: str, object_set: str) -> RecorderAnswer:
        begun = self._recorder.begin(episode_id, behaviour_policy, object_set, is_by_hand=True)
        return RecorderAnswer(f"recording {begun}", begun)

    async def _end(self, label: Label) -> RecorderAnswer:
        complaint = unsigned_persons_label(label) if self._signed_labels is not None else ""
        ended = self._recorder.end(label=Label() if complaint else label)
        answer = await self._await_outcome(ended, "saved")
        return replace(answer, message=f"{answer.message}; not labelled: {complaint}") if complaint else answer

    async def _discard(self, reason: str) -> RecorderAnswer:
        return await self._await_outcome(self._recorder.discard(reason=reason), "discarded")

    async def _await_outcome(self, episode_id: str, wanted: str) -> RecorderAnswer:
        outcome = await self._outcome_of(episode_id)
        if outcome.kind != wanted:
            raise RecordingError(str(outcome))
        return RecorderAnswer(str(outcome), episode_id)

    async def _label(self, episode_id: str, label: Label, note: str, signature: str = "") -> RecorderAnswer:
        future = Future(executor=self._node.executor)

        def tell(answer: int | Exception) -> None:
            self._soon(partial(future.set_result, answer))

        self._recorder.label(episode_id, label, note, tell, signature)
        result = await future
        if isinstance(result, Exception):
            raise result if isinstance(result, OpcError) else RecordingError(f"episode {episode_id}: {result!r}")
        verdict = {True: "success", False: "failure", None: "nothing"}[label.is_success]
        return RecorderAnswer(f"episode {episode_id}: labelled {verdict} by {label.labeller}", episode_id, result)

    async def _label_stored(self, request: LabelEpisode.Request) -> RecorderAnswer:
        if self._signed_labels is None:
            label = _label_of_person(request.label, request.labeller, is_needed=True)
            return await self._label(request.episode_id, label, request.note)
        said = self._signed_labels.check(request.statement)
        return await self._label(said.episode_id, said.label, said.note, said.signature)

    async def _label_last(self, *, is_success: bool) -> RecorderAnswer:
        if self._signed_labels is not None:
            raise RecordingError(f"an episode that was saved is labelled with a signature: {HOW_TO_LABEL}")
        if not self._recorder.last_saved_id:
            raise RecordingError("no episode was saved since the recorder started")
        return await self._label(self._recorder.last_saved_id, self._press(is_success=is_success), "")

    def _press(self, *, is_success: bool) -> Label:
        return Label(is_success=is_success, source=LabelSource.PERSON, labeller=self._button_labeller)


def _ignore_request(press: Callable[[], Work], request: Trigger.Request) -> Work:
    return press()


def _label_of_person(value: int, labeller: str, *, is_needed: bool = False) -> Label:
    if value != LabelMsg.UNLABELLED and not labeller:
        raise RecordingError("labeller is empty, expected who says so")
    if is_needed and value == LabelMsg.UNLABELLED:
        raise RecordingError("label is 0, expected 1 (failure) or 2 (success)")
    return convert.label_from_fields(value, LabelMsg.SOURCE_PERSON, labeller)
