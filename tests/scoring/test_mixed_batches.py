import numpy as np
import pytest

from opc_ros.scoring.mixed_batches import mix_rows, rows_of_a_batch


def test_every_row_is_asked_about_and_all_batches_are_of_one_size() -> None:
    mixed = mix_rows([3, 20, 1, 7], ["a", "b", "c", "d"], rows=8)
    assert mixed.shape == (4, 8)
    assert set(mixed.ravel().tolist()) == set(range(31))
    assert np.unique(mixed.ravel()[:31]).size == 31  # only what fills up the last batch is evaluated twice
    assert mix_rows([2], ["alone"], rows=8).shape == (1, 8)


def test_a_batch_holds_hardly_two_rows_of_one_episode_and_not_in_order() -> None:
    lengths = [8] * 16
    mixed = mix_rows(lengths, [f"{index:064x}" for index in range(16)], rows=16)
    episode, step = np.divmod(mixed, 8)
    most = [np.bincount(row, minlength=16).max() for row in episode]
    assert max(most) <= 2
    lasts = [(row == 7).sum() for row in step]
    assert max(lasts) < 8  # last frames, which show the outcome, are spread over the batches


def test_the_order_follows_from_the_keys_alone() -> None:
    first, again = (mix_rows([5, 6], ["x", "y"], rows=4) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, mix_rows([5, 6], ["x", "z"], rows=4))


@pytest.mark.parametrize(
    ("size", "device", "has_own_code", "rows"),
    [
        ((96, 96), "cpu", True, 16),
        ((96, 96), "cpu", False, 64),
        ((472, 472), "cpu", True, 8),
        ((472, 472), "cpu", False, 8),
        ((9, 9), "cuda", True, 256),
    ],
)
def test_large_images_and_programs_come_in_small_batches(
    size: tuple[int, int], device: str, has_own_code: bool, rows: int
) -> None:
    assert rows_of_a_batch(size, device, has_own_code=has_own_code) == rows
