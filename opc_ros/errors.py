"""Every error that opc_ros raises on purpose.

Catch `OpcError` at a program's edge; its text is one line that says what failed, what was got and expected, and what
to do.

    OpcError
    ├── SetupError                 this machine lacks something, or a name or domain is already in use
    ├── WorkerLost                 a process that did part of the work died
    ├── ConfigError                an invalid YAML file, key or value
    ├── EpisodeError               an invalid action, step or label, or an incomplete episode
    │   └── TaskError              numbers that do not fit their task
    ├── ArmError                   an arm that cannot or may not move
    │   ├── ArmStopped             a stop is in force
    │   ├── ArmLost                commands, measurements or heartbeats stopped
    │   └── OutOfReach             a pose or a trajectory beyond the arm's limits
    ├── EpisodeStopped             a stop request ended an episode
    ├── RecordingError             something that a recorder cannot do now
    ├── StoreError                 the validation store
    │   ├── EpisodeNotFound
    │   ├── EpisodeDamaged         bytes that differ from what was committed
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
    │   ├── QCacheError            the file of Q values
    │   └── ConstantScores         all scores or all true values are equal, so nothing to correlate
    ├── TransferError              a message between machines of a lab that was invalid or refused
    │   └── LabUnreachable         no answer: the link is down, or the depot is not running
    ├── TrainingError              data that cannot be trained on, or a run that cannot continue
    ├── EvaluationError            a measurement of true success that cannot be made or read
    ├── RankingError               a ranking that contradicts itself, or a candidate it lacks
    └── DeploymentError            gate, permits, audit log and scheduler
        ├── PermitRefused
        │   ├── PermitOutdated     issued for an earlier start of the robot
        │   └── RobotClockWrong    the robot's clock was set back, or is behind the scheduler's
        ├── StatementRefused       unsigned, or not from somebody who may say this, or too old
        ├── AuditLogDamaged        lines were changed, added or removed
        ├── QueueBusy              another program has held queue or audit log for too long
        ├── QueueEdited            rows of the queue differ from what was signed; they are put back
        ├── DiskFull               no space for queue or audit log; no robot is leased until there is
        └── SchedulerBusy          another scheduler holds the queue
"""


class OpcError(Exception):
    """Root of the tree."""


class SetupError(OpcError):
    """This machine lacks something, or a name or domain is already in use."""


class WorkerLost(OpcError):
    """A process that did part of the work died."""


class ConfigError(OpcError):
    """An invalid YAML file, key or value."""


class EpisodeError(OpcError):
    """An invalid action, step or label, or an incomplete episode."""


class TaskError(EpisodeError):
    """Numbers that do not fit their task."""


class ArmError(OpcError):
    """An arm that cannot or may not move."""


class ArmStopped(ArmError):
    """A stop is in force."""


class ArmLost(ArmError):
    """Commands, measurements or heartbeats stopped."""


class OutOfReach(ArmError):
    """A pose or a trajectory beyond the arm's limits."""


class EpisodeStopped(OpcError):
    """A stop request ended an episode."""


class RecordingError(OpcError):
    """Something that a recorder cannot do now."""


class StoreError(OpcError):
    """The validation store."""


class EpisodeNotFound(StoreError):
    """No such episode in the store."""


class EpisodeDamaged(StoreError):
    """Bytes that differ from what was committed."""


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
    """A validation set without episodes."""


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
    """All scores or all true values are equal, so nothing to correlate."""


class TransferError(OpcError):
    """A message between machines of a lab that was invalid or refused."""


class LabUnreachable(TransferError):
    """No answer: the link is down, or the depot is not running."""


class TrainingError(OpcError):
    """Data that cannot be trained on, or a run that cannot continue."""


class EvaluationError(OpcError):
    """A measurement of true success that cannot be made or read."""


class RankingError(OpcError):
    """A ranking that contradicts itself, or a candidate it lacks."""


class DeploymentError(OpcError):
    """Gate, permits, audit log and scheduler."""


class PermitRefused(DeploymentError):
    """A permit that does not allow what was asked."""


class PermitOutdated(PermitRefused):
    """A permit for an earlier start of the robot: nothing is wrong with it, but it is no longer valid."""


class RobotClockWrong(PermitRefused):
    """The robot's clock was set back, or is behind the scheduler's: nothing is wrong with permit or candidate."""


class StatementRefused(DeploymentError):
    """A statement that is unsigned, forged, too old, used before, or from somebody who may not say this."""


class AuditLogDamaged(DeploymentError):
    """Lines of an audit log were changed, added or removed."""


class DiskFull(DeploymentError):
    """No space for queue or audit log; no robot is leased until there is."""


class QueueBusy(DeploymentError):
    """Another program has held queue or audit log for too long: it hangs, or was suspended."""


class QueueEdited(DeploymentError):
    """Rows of the queue differ from what was signed; nothing is decided on them, and they are put back."""


class SchedulerBusy(DeploymentError):
    """Another scheduler holds the queue."""
