"""Randomness that the guarantee rests on: Poisson coins and Gaussian noise.

Neither comes from torch's generator on the CPU: it keeps 32 bits of a seed, and a module that calls
``torch.manual_seed`` would make it repeat itself. Coins and noise come from numpy's PCG64DXSM with 256
bits of entropy each. On a GPU the normals come from that device's own generator, rekeyed for every
tensor of every step with 126 fresh bits (a 64-bit key and a 62-bit position), twice, and added.

Normals are drawn in double precision and added to the sums in double precision: about 20 ns for each
parameter and step on the CPU, small beside per-row gradients.
"""

import math

import numpy as np
import torch

from skdptune.candidates._seeding import bit_generator, entropy_for

__all__ = ["GaussianNoise", "PoissonSampler", "generator_for"]


def generator_for(seed, use):
    return np.random.Generator(bit_generator(entropy_for(seed, use)))


class PoissonSampler:
    """Independent coins: each row joins each batch with probability ``rate``, whatever else happens.

    Parameters
    ----------
    n_samples : int
    rate : float in (0, 1]
    seed : int or None
        None: the operating system's entropy.

    Examples
    --------
    >>> sampler = PoissonSampler(1000, 0.1, seed=None)
    >>> sum(len(sampler.draw()) for _ in range(100)) / 100_000 > 0.05
    True
    """

    def __init__(self, n_samples, rate, seed):
        self.n_samples = n_samples
        self.rate = rate
        # random() is k 2^-53 with k uniform, so the realised rate is floor(q 2^53) 2^-53 <= q:
        # rounded down, the private side.
        self.threshold = math.floor(rate * 2.0**53) * 2.0**-53
        self._generator = generator_for(seed, "poisson sampling")

    def draw(self):
        """Return the rows of the next batch, an int array of shape (n_drawn,), possibly empty."""
        if self.threshold >= 1.0:
            return np.arange(self.n_samples)
        return np.flatnonzero(self._generator.random(self.n_samples) < self.threshold)


class GaussianNoise:
    """Standard normals for DP-SGD, independent in every call, run and worker.

    Parameters
    ----------
    seed : int or None
        None: the operating system's entropy.

    Examples
    --------
    >>> import torch
    >>> noise = GaussianNoise(None)
    >>> noise.like(torch.zeros(3, 2)).shape
    torch.Size([3, 2])
    """

    def __init__(self, seed):
        self._generator = generator_for(seed, "gaussian noise")

    def like(self, tensor):
        """Return normals of the shape and on the device of ``tensor``, in double precision."""
        if tensor.device.type == "cuda":
            return self._on_cuda(tensor)
        draws = torch.from_numpy(self._generator.standard_normal(tuple(tensor.shape)))
        if tensor.device.type == "cpu":
            return draws
        return draws.to(tensor.device, dtype=tensor.dtype)

    def _on_cuda(self, tensor):
        total = 0
        for _ in range(2):  # two keys of 126 bits; the sum of two normals over sqrt 2 is a normal
            key, place = self._generator.integers(0, 2**62, size=2, dtype=np.int64)
            top = int(self._generator.integers(0, 4))
            generator = torch.Generator(device=tensor.device)
            generator.manual_seed((top << 62) | int(key))
            generator.set_offset(4 * (int(place) >> 2))
            total = total + torch.randn(
                tensor.shape, generator=generator, device=tensor.device, dtype=torch.float64
            )
        return total / math.sqrt(2.0)
