"""Rows in memory or in a mapped file, read a block at a time."""

import math

import numpy as np
import pytest
import torch

from hypersphere.diagnostics import diagnose, rows
from hypersphere.diagnostics.rows import Rows
from tests.diagnostics.drawn import noise


def test_tensors_arrays_and_mapped_files_are_one(tmp_path):
    z = noise().numpy()
    np.save(tmp_path / "z.npy", z)
    mapped = np.load(tmp_path / "z.npy", mmap_mode="r")
    expected = diagnose(torch.from_numpy(z)).to_dict()
    assert diagnose(z).to_dict() == expected
    assert diagnose(mapped).to_dict() == expected
    assert diagnose(z.astype(">f4")).to_dict() == expected
    assert diagnose(torch.from_numpy(z).requires_grad_()).to_dict() == expected


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8, torch.int64])
def test_other_numbers_are_taken(dtype):
    z = (noise() * 40).to(dtype)
    assert diagnose(z).uniformity == pytest.approx(diagnose(z.double()).uniformity, abs=1e-5)


def test_rows_with_nan_are_named_over_all_blocks(monkeypatch):
    monkeypatch.setattr(rows, "BLOCK_VALUES", 8)
    z = noise(20, 4)
    z[[3, 17], 1] = math.nan
    with pytest.raises(ValueError, match=r"^z1 holds NaN or Inf in 2 of 20 rows \(row 3, 17\)$"):
        list(Rows(z, "z1").blocks())
    z[5:12] = -math.inf
    with pytest.raises(ValueError, match=r"in 9 of 20 rows \(row 3, 5, 6, 7, 8, …\)$"):
        list(Rows(z, "z1").blocks())


BAD = [
    (torch.ones(1, 4), "z1 has 1 row; a check-up compares rows, so it needs at least two"),
    (torch.ones(0, 4), "z1 has 0 rows;"),
    (torch.ones(5, 1), "z1 has 1 column; directions need two"),
    (torch.ones(5), "z1 must be an array of shape (N, D), one row for each embedding, not (5,)"),
    (torch.ones(2, 3, 4), "shape (N, D)"),
    (np.array([["a", "b"], ["c", "d"]]), "z1 must hold real numbers, not <U1"),
    ([[1.0, 2.0], [3.0]], "z1 must be an array of shape (N, D), not rows of different lengths"),
    (torch.ones(3, 2, dtype=torch.complex64), "real numbers, not torch.complex64"),
    (np.ones((3, 2), dtype=bool), "real numbers, not bool"),
]


@pytest.mark.parametrize("given, sentence", BAD, ids=[sentence for _, sentence in BAD])
def test_what_is_no_array_of_rows_is_refused_in_one_sentence(given, sentence):
    with pytest.raises(ValueError) as caught:
        Rows(given, "z1")
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64])
def test_blocks_and_single_rows_have_the_digits_of_their_numbers(dtype, monkeypatch):
    monkeypatch.setattr(rows, "BLOCK_VALUES", 3 * 4)
    values = np.arange(28).reshape(7, 4).astype(dtype) / (1 if dtype is np.int64 else 7)
    for given in (values, torch.from_numpy(values)):
        blocks = list(Rows(given, "z1").blocks())
        assert [len(block) for block in blocks] == [3, 3, 1]
        assert torch.equal(torch.cat(blocks), torch.as_tensor(values).to(blocks[0].dtype))
        assert blocks[0].dtype == (torch.float64 if dtype is np.float64 else blocks[0].dtype)
        picked = Rows(given, "z1").take(torch.tensor([6, 0]))
        assert torch.equal(picked, torch.cat(blocks)[[6, 0]])
