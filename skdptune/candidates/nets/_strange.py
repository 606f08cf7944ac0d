"""Rows at which couplings show that hide from random ones: sentinels, padding, codes, extremes."""

import torch

__all__ = ["strange_bases", "strange_rows"]

_FLOATS = (0.0, -1.0, 1.0, 2.0, 255.0, 1e3, -1e3, 1e6, 1e30, float("nan"), float("inf"))
_WHOLES = (0, -1, 1, 2, 3, 5, 9, 49, 99, 255, 1000, 100_000)
_TARGETS = (0.0, -1.0, 1e3, 1e6, 1e30, float("nan"), float("inf"))


def _each(x, change):
    return {name: change(part) for name, part in x.items()} if isinstance(x, dict) else change(x)


def strange_bases(x):
    """Yield batches in the shape of ``x``: small, large, blank and whole ones."""
    generator = torch.Generator().manual_seed(0)

    def whole(part, top):
        return torch.randint(0, top, part.shape, generator=generator).to(part.dtype)

    yield x
    for scale in (1e-3, 100.0):
        yield _each(x, lambda part, scale=scale: scale * part if part.is_floating_point() else whole(part, 2))
    yield _each(x, torch.zeros_like)
    parts = x.values() if isinstance(x, dict) else [x]
    for top in (3, 256) if all(part.is_floating_point() for part in parts) else (3, 5, 50, 256):
        yield _each(x, lambda part, top=top: whole(part, top))


def strange_rows(base, y, place, marked=True):
    """Yield ``(x, y)``: copies of ``base`` in which the row ``place`` is filled, marked, padded or repeated.

    Without ``marked`` rows, in which a single number is strange, a third is left.
    """

    def put(row_of):
        def changed(part):
            part = part.clone()
            part[place] = row_of(part[place].reshape(-1).clone(), part).reshape(part[place].shape)
            return part

        return _each(base, changed)

    def marks(part):
        return _FLOATS if part.is_floating_point() else _WHOLES

    for i in range(len(_WHOLES)):

        def value(part, i=i):
            return marks(part)[min(i, len(marks(part)) - 1)]

        yield put(lambda row, part, value=value: torch.full_like(row, value(part))), y
        if not marked:
            continue
        yield put(lambda row, part, value=value: _marked(row, 0, value(part))), y
        yield put(lambda row, part, value=value: _marked(torch.zeros_like(row), -1, value(part))), y
    yield put(lambda row, part: part[0].reshape(-1).clone()), y  # a repeated row
    yield put(lambda row, part: _padded(row)), y
    if y.is_floating_point():
        for target in _TARGETS:
            other = y.clone()
            other[place] = target
            yield base, other


def _marked(row, where, value):
    if row.numel():
        row[where] = value
    return row


def _padded(row):
    row[row.numel() // 2 :] = 0
    return row
