"""Services whose answers reach clients that DDS has only half discovered."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.node import Node
from rclpy.service import Service

MOST_TRIES = 20  # to send one answer; rmw waits 100 ms for the client in each


def create_service(
    node: Node,
    kind: type,
    name: str,
    serve: Callable[[Any, Any], Any],
    *,
    callback_group: CallbackGroup | None = None,
) -> Service:
    """Like `node.create_service`, but an answer that finds no client is sent again, for up to two seconds.

    A node may receive a client's request before it has discovered where the answer goes. On a busy machine that takes
    longer than rmw waits, and a client whose answer is dropped waits forever.
    """
    # rclpy only warns about it, once per process; turned into an error, the warning can be caught.
    warnings.filterwarnings("error", message=r"failed to send response \(timeout\)", category=RuntimeWarning)
    service = node.create_service(kind, name, serve, callback_group=callback_group)
    service.send_response = partial(_send, node, name, service.send_response, MOST_TRIES)
    return service


def _send(node: Node, name: str, send: Callable[[Any, Any], None], tries: int, response: Any, header: Any) -> None:
    """Send an answer; if it finds no client, try again after everything else that the node has to do."""
    try:
        send(response, header)
    except _rclpy.InvalidHandle:
        pass  # the service was closed before its client could be answered
    except (RuntimeWarning, SystemError) as error:
        # Python raises SystemError when an extension goes on after its warning has become an exception.
        if isinstance(error, SystemError) and not isinstance(error.__cause__, RuntimeWarning):
            raise
        if tries > 1 and node.executor is not None:
            node.executor.create_task(_send, node, name, send, tries - 1, response, header)
        else:
            node.get_logger().warning(
                f"service {name}: did what a client asked but cannot answer it: it is out of reach, or its quality of"
                " service differs from the service's"
            )
