"""How large a demo is, and where its files go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from opc_ros.deployment.history import FILE_NAME
from opc_ros.errors import ConfigError


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """One run of the loop; its folder has the layout that `opc up twin` and the other commands expect."""

    folder: Path
    zoo: Path  # folder with a folder for each candidate
    earlier: Path | None = None  # candidates of earlier days, whose episodes are the lab's history
    history_episodes: int = 6  # of each of them
    truth: Path | None = (
        None  # CSV file with the true success of candidates, shown at the end and used for nothing else
    )
    robots: tuple[str, ...] = ("arm1", "arm2")
    episodes: int = 12  # to record, over all robots
    most_candidates: int = 19
    world: str = "pseudo_real"
    policy: str = "better"
    image_size: int = 96
    real_time_factor: float = 6.0
    seed: int = 0
    gate_config: str = "gate_demo.yaml"
    scheduler_config: str = "scheduler_demo.yaml"
    is_staying: bool = False  # keep the lab up at the end, until Ctrl-C
    longest_run_s: float = 420.0  # most time on the arms, whatever the scheduler would like

    def __post_init__(self) -> None:
        if self.episodes < len(self.robots):
            raise ConfigError(f"{self.episodes} episodes, expected at least one for each of {len(self.robots)} robots")
        if self.most_candidates < 1:
            raise ConfigError(f"{self.most_candidates} candidates, expected at least 1")

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def history(self) -> Path:
        return self.folder / "deployment" / FILE_NAME

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def ranking(self) -> Path:
        return self.folder / "scores" / "published" / "ranking.json"

    @property
    def audit_log(self) -> Path:
        return self.folder / "deployment" / "audit.jsonl"

    def share(self, robot: str) -> int:
        """How many episodes each robot records."""
        whole, rest = divmod(self.episodes, len(self.robots))
        return whole + (self.robots.index(robot) < rest)

    def arguments(self, **more: str) -> dict[str, str]:
        """The arguments of this run for `opc up twin`."""
        folders = {"store": "store", "candidates": "candidates", "scores": "scores"}
        folders |= {"deployment": "deployment", "state": "robots"}
        return {
            "robots": ",".join(self.robots),
            **{name: str(self.folder / path) for name, path in folders.items()},
            "world": self.world,
            "policy": self.policy,
            "image_size": str(self.image_size),
            "real_time_factor": f"{self.real_time_factor:g}",
            "camera_hz": "20",  # the arms are faster than real time, so the cameras must be, too
            "joint_state_hz": "50",  # leaves more of two cores for everything else
            "seed": str(self.seed),
            "gate_config": self.gate_config,
            "scheduler_config": self.scheduler_config,
            **more,
        }
