"""How a stored report is served: it may run its own script, which sorts and filters, and nothing else."""

from __future__ import annotations

from opc_ros.reporting.page import page_policy


def report_headers() -> dict[str, str]:
    policy = f"{page_policy()}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    return {"content-security-policy": policy}
