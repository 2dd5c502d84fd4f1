"""Worker processes: they leave Ctrl-C to their parent, and never outlive it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor
from concurrent.futures import wait as wait_for_futures
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection, wait
from typing import TypeVar

from opc_ros.errors import WorkerLost

Task = TypeVar("Task")
Result = TypeVar("Result")


def nothing_more(task: object, result: object) -> tuple[()]:
    """For tasks that lead to no further tasks."""
    return ()


def begin_worker(leash: Connection | None = None) -> None:
    """Call this first in a worker. A killed parent cannot tell its workers to end, and they would wait forever.

    The parent can also close its end of the leash, and the worker ends in the middle of its task.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, which then ends its workers
    parent = multiprocessing.parent_process()
    if parent is not None:
        watched = [parent.sentinel] if leash is None else [parent.sentinel, leash]
        threading.Thread(target=_end_after, args=(watched,), daemon=True).start()


def _end_after(watched: list[int | Connection]) -> None:
    wait(watched)
    os._exit(1)


def work_through(
    tasks: Iterable[Task],
    do: Callable[[Task], Result],
    *,
    workers: int,
    prepare: Callable[[], None],
    then: Callable[[Task, Result], Iterable[Task]] = nothing_more,
) -> Iterator[tuple[Task, Result]]:
    """Yield every task with its result as it finishes; `then` may add tasks behind the others.

    One worker means this process; more are separate processes, each prepared once. A caller that stops iterating leaves
    the running tasks unfinished.
    """
    waiting = deque(tasks)
    if workers > 1 and len(waiting) > 1:
        yield from _share_out(waiting, do, min(workers, len(waiting)), prepare, then)
        return
    while waiting:
        task = waiting.popleft()
        result = do(task)
        waiting.extend(then(task, result))
        yield task, result


def _share_out(
    tasks: Iterable[Task],
    do: Callable[[Task], Result],
    workers: int,
    prepare: Callable[[], None],
    then: Callable[[Task, Result], Iterable[Task]],
) -> Iterator[tuple[Task, Result]]:
    context = multiprocessing.get_context("spawn")  # emulators, physics clients and torch's threads survive no fork
    leash, hold = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start, initargs=(leash, prepare))
    try:
        running: dict[Future[Result], Task] = {pool.submit(do, task): task for task in tasks}
        while running:
            for future in wait_for_futures(running, return_when=FIRST_COMPLETED).done:
                task, result = running.pop(future), future.result()
                running |= {pool.submit(do, following): following for following in then(task, result)}
                yield task, result
    except BrokenProcessPool as error:
        raise WorkerLost("a worker process died; what was finished is kept, run again for the rest") from error
    except BaseException:  # including GeneratorExit, when nobody asks for more
        hold.close()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        hold.close()
        leash.close()


def _start(leash: Connection, prepare: Callable[[], None]) -> None:
    begin_worker(leash)
    prepare()
