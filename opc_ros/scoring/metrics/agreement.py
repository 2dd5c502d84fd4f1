"""Agreement: SoftOPC over spread of how close a candidate's own actions are to the recorded ones; it needs no Q.

A candidate scores high if it would have acted as successful episodes did and not as failed ones did.
"""

from __future__ import annotations

from opc_ros.scoring.metrics.soft_opc_over_spread import SoftOpcOverSpread

METRIC = SoftOpcOverSpread(name="agreement", title="Agreement with successes", asks="agreement")
