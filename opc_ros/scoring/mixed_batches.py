"""Which states share a batch: they are shuffled, from many episodes, and their number is always the same.

A candidate that saw a whole episode in one batch could read the outcome from its last frame. With a fixed number of
rows, each row also gets the same bits whatever the other rows are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

COMPANY = 8  # the fewest episodes that share batches; if fewer are to be scored, others fill up
_ROWS = 64  # for named architectures, which cannot look at other rows: sized for a core's cache
_ROWS_WITH_OWN_CODE = 16  # per row about twice as fast as 8, and still only a row or two of each episode
_ROWS_OF_LARGE_IMAGES = 8
_LARGE_PIXELS = 256 * 256
_ROWS_ON_GPU = 256


def rows_of_a_batch(image_size: tuple[int, int], device: str, *, has_own_code: bool) -> int:
    """How many states a candidate with this image size always gets at once."""
    if device == "cuda":
        return _ROWS_ON_GPU
    if image_size[0] * image_size[1] > _LARGE_PIXELS:
        return _ROWS_OF_LARGE_IMAGES
    return _ROWS_WITH_OWN_CODE if has_own_code else _ROWS


def mix_rows(lengths: Sequence[int], keys: Sequence[str], rows: int) -> np.ndarray:
    """Row numbers of all episodes joined, (batches, rows) int64; each episode's rows are spread over all batches.

    The last batch is filled up with rows of the first. The order depends only on the keys, so it never changes.
    """
    numbers, places = [], []
    start = 0
    for length, key in zip(lengths, keys, strict=True):
        rng = np.random.default_rng(int.from_bytes(hashlib.sha256(key.encode()).digest()[:8]))
        numbers.append(start + rng.permutation(length))
        places.append((np.arange(length) + rng.random()) / length)
        start += length
    order = np.concatenate(numbers)[np.argsort(np.concatenate(places), kind="stable")]
    batches = -(-order.size // rows)
    return np.resize(order, batches * rows).reshape(batches, rows)
