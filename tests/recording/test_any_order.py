from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.recording.bench import HELD

STEPS = 5
DELIVERIES = [("begin", 0), ("end", 0), *((kind, n) for kind in ("frame", "step") for n in range(STEPS))]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    order=st.permutations(DELIVERIES), lost=st.sets(st.sampled_from(DELIVERIES[2:]), max_size=2), pause=st.booleans()
)
def test_an_episode_is_saved_only_if_nothing_was_lost_and_never_with_a_wrong_frame(
    make_bench: Callable, order: list[tuple[str, int]], lost: set[tuple[str, int]], pause: bool
) -> None:
    """Topics may overtake each other in any way, except that events arrive in order."""
    bench = make_bench()
    begin, end = sorted((order.index(("begin", 0)), order.index(("end", 0))))
    order[begin], order[end] = ("begin", 0), ("end", 0)
    for delivery in order:
        kind, number = delivery
        if delivery in lost:
            continue
        if kind == "begin":
            bench.recorder.begin("e1")
        elif kind == "end":
            bench.recorder.end("e1", HELD, STEPS)
        elif kind == "frame":
            bench.frame(number)
        else:
            bench.step(number)
        if pause:
            bench.pass_time(0.05)
    for _ in range(4):
        bench.pass_time(0.6)
    assert bench.outcome().kind == ("quarantined" if lost else "saved")
    assert len(bench.outcomes) == 1
    for episode in bench.sink.committed.values():
        assert [step.frame.data for step in episode.steps] == [b"image %d" % n for n in range(STEPS)]
