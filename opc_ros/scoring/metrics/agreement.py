"""Agreement: SoftOPC over spread of how near a candidate's own actions lie to recorded ones; it needs no Q.

A candidate that would have acted as successful episodes did, and not as failed ones did, scores high.
"""

from __future__ import annotations

from opc_ros.scoring.metrics.soft_opc_over_spread import SoftOpcOverSpread

METRIC = SoftOpcOverSpread(name="agreement", title="Agreement with successes", asks="agreement")
