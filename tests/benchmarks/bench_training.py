"""Training against a bare forward-backward loop, and evaluation on two processes against one.

python -m tests.benchmarks.bench_training --steps 40 --episodes 160
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from opc_ros.policies.candidate import Candidate, read_candidate
from opc_ros.policies.compute import limit_threads_here
from sim_bridge.training.evaluation import TrialPlan, evaluate
from sim_bridge.training.memory import keep_freed_memory
from sim_bridge.training.recipe import TrainingRecipe
from sim_bridge.training.replay import Replay
from sim_bridge.training.run import TrainingRun

SIZE = 96
BATCH = 64
CANDIDATE = Path("sim_bridge/zoo/candidates/third-00800")  # a good one, so that episodes have their usual length


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40, help="0: leave training out")
    parser.add_argument("--episodes", type=int, default=160, help="0: leave evaluation out")
    arguments = parser.parse_args()
    limit_threads_here(1)
    keep_freed_memory()
    with tempfile.TemporaryDirectory(prefix="bench_training_") as folder:
        for architecture in ("target_crop", "tool_crop", "whole_image") if arguments.steps else ():
            measure_training(architecture, arguments.steps, Path(folder))
        if arguments.episodes:
            measure_evaluation(arguments.episodes, Path(folder))


def measure_training(architecture: str, steps: int, folder: Path) -> None:
    recipe = TrainingRecipe(
        name=architecture,
        architecture=architecture,
        targets="monte_carlo",
        batch_size=BATCH,
        image_jitter=0.5,  # as in the zoo's recipes
        averaging=0.98,
    )
    run = TrainingRun(recipe, random_replay(200), folder)
    bare = bare_step(run)
    times: dict[str, list[float]] = {"bare": [], "whole": []}
    for _ in range(steps):  # alternating, so that both face the same load
        times["bare"].append(timed(bare))
        times["whole"].append(timed(run.advance))
    ratio = float(np.median(times["bare"]) / np.median(times["whole"]))
    rate = 1 / float(np.median(times["whole"]))
    print(f"training {architecture}: {ratio:.2f} of the bare loop's rate (goal 0.80), {rate:.1f} batches a second")


def bare_step(run: TrainingRun) -> Callable[[], object]:
    """Forward, backward and update of the run's own network on one prepared batch."""
    network, optimiser = run._network, run._optimiser
    images = torch.randint(0, 256, (BATCH, SIZE, SIZE, 3), dtype=torch.uint8)
    tools = torch.tensor([0.6, 0.0, 0.2, 0.0, 0.08]).repeat(BATCH, 1)
    actions, targets = torch.zeros(BATCH, 8), torch.full((BATCH,), 0.5)

    def step() -> None:
        network.train()
        logits = network.logits(network.encode(images, tools), actions)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, targets)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()

    return step


def measure_evaluation(episodes: int, folder: Path) -> None:
    candidate = read_candidate(CANDIDATE)
    one = timed(lambda: evaluate_on(candidate, episodes, folder / "one", 1))
    two = timed(lambda: evaluate_on(candidate, episodes, folder / "two", 2))
    print(f"evaluation: two processes {one / two:.2f} times one (goal 1.70), {episodes / two:.1f} episodes a second")


def evaluate_on(candidate: Candidate, episodes: int, cache: Path, workers: int) -> None:
    evaluate([candidate], TrialPlan(worlds=("train",), episodes=episodes), cache, workers=workers)


def random_replay(episodes: int) -> Replay:
    rng = np.random.default_rng(0)
    rows = episodes * 8
    return Replay(
        images=rng.integers(0, 256, (rows, SIZE, SIZE, 3), dtype=np.uint8),
        tools=np.tile(np.array([0.6, 0.0, 0.2, 0.0, 0.08], dtype=np.float32), (rows, 1)),
        actions=rng.uniform(-0.08, 0.08, (rows, 8)).astype(np.float32),
        lengths=np.full(episodes, 8),
        success=np.arange(episodes) % 2 == 0,
    )


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
