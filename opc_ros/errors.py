"""Every error this product raises on purpose.

Catch `OpcError` at a program's edge; its text is one line that says which, got, expected and what to do.

    OpcError
    ├── SetupError                 something this machine lacks, or a name or domain already in use
    ├── WorkerLost                 a process that did part of the work died
    ├── ConfigError                a YAML file, a key or a value
    ├── EpisodeError               an action, a step, a label or an episode that is not whole
    │   └── TaskError              numbers that are not of the task they are said to be of
    ├── ArmError                   an arm that cannot or may not move
    │   ├── ArmStopped             a stop is in force
    │   ├── ArmLost                commands, measurements or heartbeats ceased
    │   └── OutOfReach             a pose or a trajectory that the arm's limits do not allow
    ├── EpisodeStopped             an order to stop was obeyed
    ├── RecordingError             a recorder asked for what it cannot do now
    ├── StoreError                 the validation store
    │   ├── EpisodeNotFound
    │   ├── EpisodeDamaged         bytes that are not what was committed
    │   ├── SnapshotNotFound
    │   └── BlobNotFound           no such file or object
    ├── CandidateError             a candidate's folder, manifest, artifact or output
    │   └── ThoughtTooLong         no action within the deadline
    ├── ScoreError                 data that no score can be computed from
    │   ├── EmptyValidationSet
    │   ├── NoPositiveEpisodes     no success, so nothing to compare with
    │   ├── OnlyPositiveEpisodes   only successes, so every candidate scores the same
    │   ├── LengthMismatch
    │   ├── NonFiniteQ
    │   ├── PriorOutOfRange
    │   ├── QCacheError           the file of Q values
    │   └── ConstantScores         all scores or all true values alike, so nothing to correlate
    ├── TransferError              what machines of a lab send each other, refused or not as it should be
    │   └── LabUnreachable         nobody answers: the link is down, or the depot does not run
    ├── TrainingError              data that no candidate can be trained on, or a run that cannot go on
    ├── EvaluationError            a measurement of true success that cannot be made or read
    ├── RankingError               a ranking that contradicts itself, or a candidate it lacks
    └── DeploymentError            gate, permits, audit log and scheduler
        ├── PermitRefused
        │   └── PermitOutdated     issued for an earlier start of the robot
        ├── StatementRefused       nobody signed it, or not who may, or not now
        ├── AuditLogDamaged          lines changed, added or missing
        ├── QueueBusy                another program holds queue or audit log for too long
        ├── QueueEdited              rows of the queue say what nobody signed; they are put back
        ├── DiskFull                 no room for queue or audit log: no robot is leased until there is
        └── SchedulerBusy          another scheduler holds the queue
"""


class OpcError(Exception):
    """Root of the tree."""


class SetupError(OpcError):
    """Something this machine lacks, or a name or domain already in use."""


class WorkerLost(OpcError):
    """A process that did part of the work died."""


class ConfigError(OpcError):
    """A YAML file, a key or a value."""


class EpisodeError(OpcError):
    """An action, a step, a label or an episode that is not whole."""


class TaskError(EpisodeError):
    """Numbers that are not of the task they are said to be of."""


class ArmError(OpcError):
    """An arm that cannot or may not move."""


class ArmStopped(ArmError):
    """A stop is in force."""


class ArmLost(ArmError):
    """Commands, measurements or heartbeats ceased."""


class OutOfReach(ArmError):
    """A pose or a trajectory that the arm's limits do not allow."""


class EpisodeStopped(OpcError):
    """An order to stop was obeyed in the middle of an episode."""


class RecordingError(OpcError):
    """A recorder asked for what it cannot do now."""


class StoreError(OpcError):
    """The validation store."""


class EpisodeNotFound(StoreError):
    """No such episode in the store."""


class EpisodeDamaged(StoreError):
    """Bytes that are not what was committed."""


class SnapshotNotFound(StoreError):
    """No such snapshot or tag."""


class BlobNotFound(StoreError):
    """No such file or object."""


class CandidateError(OpcError):
    """A candidate's folder, manifest, artifact or output."""


class ThoughtTooLong(CandidateError):
    """No action within the deadline."""


class ScoreError(OpcError):
    """Data that no score can be computed from."""


class EmptyValidationSet(ScoreError):
    """Not a single episode."""


class NoPositiveEpisodes(ScoreError):
    """No success, so nothing to compare with."""


class OnlyPositiveEpisodes(ScoreError):
    """Only successes, so every candidate scores the same."""


class LengthMismatch(ScoreError):
    """Arrays that do not belong together."""


class NonFiniteQ(ScoreError):
    """A Q value that is NaN or infinite."""


class PriorOutOfRange(ScoreError):
    """A prior that is not a probability."""


class QCacheError(ScoreError):
    """The file of Q values."""


class ConstantScores(ScoreError):
    """All scores or all true values alike, so nothing to correlate."""


class TransferError(OpcError):
    """What machines of a lab send each other, refused or not as it should be."""


class LabUnreachable(TransferError):
    """Nobody answers: the link is down, or the depot does not run."""


class TrainingError(OpcError):
    """Data that no candidate can be trained on, or a run that cannot go on."""


class EvaluationError(OpcError):
    """A measurement of true success that cannot be made or read."""


class RankingError(OpcError):
    """A ranking that contradicts itself, or a candidate it lacks."""


class DeploymentError(OpcError):
    """Gate, permits, audit log and scheduler."""


class PermitRefused(DeploymentError):
    """A permit that does not allow what was asked."""


class PermitOutdated(PermitRefused):
    """A permit for an earlier start of the robot: nothing is wrong with it, but it counts no more."""


class StatementRefused(DeploymentError):
    """What somebody says, unsigned, forged, too old, said before, or not theirs to say."""


class AuditLogDamaged(DeploymentError):
    """AuditLog lines that were changed, added or are missing."""


class DiskFull(DeploymentError):
    """No room for queue or audit log: no robot is leased until there is."""


class QueueBusy(DeploymentError):
    """Another program holds queue or audit log for too long: it hangs, or was stopped."""


class QueueEdited(DeploymentError):
    """Rows of the queue say what nobody signed: nothing is decided on them, and they are put back."""


class SchedulerBusy(DeploymentError):
    """Another scheduler holds the queue."""
