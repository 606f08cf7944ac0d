"""The training loop: Poisson batches, clipped sums, Gaussian noise, one optimizer step each.

Paper <-> code (Abadi et al., arXiv 1607.00133v2, Algorithm 1): a lot is one draw of the sampler; its
gradients are clipped and summed in physical batches; noise of standard deviation sigma C is added once,
to the sum of the whole lot, also where the lot is empty; the sum is divided by the *expected* lot size.
"""

import contextlib
import math
import warnings

import torch
from joblib.parallel import get_active_backend

from skdptune._exceptions import CandidateRefusedError, InvalidParameterError
from skdptune.candidates.nets._callbacks import apply_callbacks, runs_own_callbacks
from skdptune.candidates.nets._checks import as_bounds, check_parameters
from skdptune.candidates.nets._known import is_known
from skdptune.candidates.nets._modules import dtype_of, fixed_torch_seed, plain_torch
from skdptune.candidates.nets._noise import GaussianNoise, PoissonSampler, generator_for
from skdptune.candidates.nets._per_sample import clipper
from skdptune.candidates.nets._schedules import factors_of

__all__ = ["clipping_bounds", "in_worker", "one_thread_in_workers", "place", "train"]


def clipping_bounds(net, n_parameters):
    """Return ``(bounds, sensitivity)``: clipping bounds and the norm they allow one row's gradient.

    Parameters
    ----------
    net : estimator
        Its ``max_grad_norm`` is the bound on the whole gradient; per layer, every parameter tensor gets
        the same share of its square, unless ``max_grad_norm`` lists one bound for each.
    n_parameters : int
        Number of trainable parameter tensors.
    """
    norm = as_bounds(net.max_grad_norm)
    if net.clipping == "flat":
        return [float(norm)], float(norm)
    if isinstance(norm, (list, tuple)):
        bounds = [float(bound) for bound in norm]
        if len(bounds) != n_parameters:
            raise InvalidParameterError(
                "max_grad_norm must hold one bound for each trainable parameter tensor in every epoch; got "
                f"{len(bounds)} for {n_parameters}. Give one number, and every tensor gets its share."
            )
        return bounds, math.sqrt(math.fsum(b * b for b in bounds)) * (1 + 1e-15)  # rounded up
    return [float(norm) / math.sqrt(max(1, n_parameters))] * n_parameters, float(norm) * (1 + 1e-12)


class _Steps:
    """The moving parts of one training; private rows are seen by :meth:`sums` alone."""

    def __init__(self, net, module, optimizer, row_loss, noise, seeds=None):
        self.net, self.module, self.optimizer = net, module, optimizer
        self.row_loss, self.noise, self.seeds = row_loss, noise, seeds
        self.clip = None
        self.sensitivity = 0.0
        self._stack = contextlib.ExitStack()
        self._trainable = None
        self._base_rates = [group["lr"] for group in optimizer.param_groups]
        self._factors = None

    def close(self):
        self._stack.close()

    def begin_epoch(self, number, strict=False):
        """Run callbacks; if they froze or freed layers, lay the per-row machinery anew."""
        apply_callbacks(self.net, self.module, number)
        check_parameters(self.module)  # a callback may have changed them
        trainable = [name for name, p in self.module.named_parameters() if p.requires_grad]
        if trainable == self._trainable:
            return
        self._trainable = trainable
        self._stack.close()
        bounds, self.sensitivity = clipping_bounds(self.net, len(trainable))
        self.clip = self._stack.enter_context(
            clipper(self.net.grad_sample_mode, self.module, self.row_loss, bounds, strict, self.seeds)
        )

    def read_schedule(self, steps):
        """Ask the schedule for all its factors, before a row is read: no step can fail for it."""
        if self.net.lr_schedule is not None:
            self._factors = factors_of(self.net.lr_schedule, steps)

    def set_rate(self, step):
        """Set the learning rate of ``step`` from the schedule."""
        if self._factors is not None:
            for group, base in zip(self.optimizer.param_groups, self._base_rates, strict=True):
                group["lr"] = base * self._factors[step]

    def sums(self, batches):
        """Return the clipped sums over an iterable of physical batches ``(x, y)``.

        In double precision: in single precision one row more would change the rounding of every later sum,
        which grows with the batch while the noise does not.
        """
        total = self.clip.zeros()
        for x, y in batches:
            for accumulated, part in zip(total, self.clip.clipped_sum(x, y), strict=True):
                accumulated.add_(part)
        return total

    def noisy_step(self, total, terms):
        """Add noise, divide by the expected batch size, and step. Nothing after this is private."""
        scale = terms.noise_multiplier * self.sensitivity
        for (_, parameter), summed in zip(self.clip.named, total, strict=True):
            noise = self.noise.like(summed)
            noisy = summed.to(noise.dtype) + scale * noise
            parameter.grad = (noisy / terms.divisor).to(parameter.dtype)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def train(net, module, optimizer, row_loss, rows, targets, terms, *, device, seed):
    """Train ``module`` in place on private rows.

    Parameters
    ----------
    net : estimator
        Read for settings only.
    module : torch.nn.Module
        On ``device``; the trained object is for the curator alone, its parameters are private outputs.
    optimizer : torch.optim.Optimizer
    row_loss : RowLoss
    rows : Rows
    targets : torch.Tensor of shape (n_samples, ...)
        On the CPU.
    terms : SgdTerms
        Exactly ``terms.steps`` noisy steps are made.
    device : torch.device
    seed : int or None
        None: the operating system's entropy.

    Notes
    -----
    *Guarantee.* The parameters after training are the output of the mechanism priced by
    ``terms.curve(relation)``. With ``grad_sample_mode`` "rows", and with "auto" where the module is known, rows
    do not meet, by construction; else this *assumes* what ``NetAdapter.assumptions`` lists.
    """
    sampler = PoissonSampler(len(rows), terms.sample_rate, seed)
    steps = _Steps(net, module, optimizer, row_loss, GaussianNoise(seed), generator_for(seed, "dropout"))
    module.train()
    dtype = dtype_of(module)
    own_code = runs_own_callbacks(net) or not is_known(module, row_loss.criterion)
    # every batch has its own seed; the caller's generator is put back
    dropout = fixed_torch_seed(0, device, own_code=own_code)
    with plain_torch(), dropout, _quiet_hooks(), contextlib.closing(steps):
        steps.read_schedule(terms.steps)
        for step in range(terms.steps):
            if step % terms.epoch == 0:
                steps.begin_epoch(step // terms.epoch + 1)
            steps.set_rate(step)
            drawn = sampler.draw()
            batches = _batches(net, rows, targets, drawn, dtype, device)
            steps.noisy_step(steps.sums(batches), terms)
    module.eval()


def _batches(net, rows, targets, drawn, dtype, device):
    """Yield the drawn rows in physical batches, each on the device only while it is used."""
    whole = net._whole_dtype()
    for start in range(0, len(drawn), net.physical_batch_size):
        part = drawn[start : start + net.physical_batch_size]
        x = rows.take(part, dtype=dtype, whole=whole, device=device)
        yield x, targets[torch.from_numpy(part)].to(device)


@contextlib.contextmanager
def _quiet_hooks():
    """Silence torch's remarks that inputs need no gradient and that a rule for vmap is slow."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Full backward hook is firing")
        warnings.filterwarnings("ignore", message="There is a performance drop")
        yield


def in_worker():
    """Return whether this code runs inside a joblib worker."""
    backend, _ = get_active_backend()
    return getattr(backend, "nesting_level", 0) > 0


@contextlib.contextmanager
def one_thread_in_workers():
    """Use one torch thread inside joblib workers, and the caller's own number elsewhere.

    Several loops with several threads each wait for one another far longer than they compute.
    """
    threads = torch.get_num_threads()
    if threads == 1 or not in_worker():
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def place(device):
    """Return the torch device of this run: workers share several GPUs in turn.

    Parameters
    ----------
    device : str or torch.device
        "cuda" without a number is spread over all GPUs inside joblib workers.

    Raises
    ------
    CandidateRefusedError
        If this machine has no such device.

    Examples
    --------
    >>> place("cpu")
    device(type='cpu')
    """
    device = torch.device(device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise CandidateRefusedError(
            f"device must be there; got {str(device)!r}, and torch finds no CUDA device on this machine. Set "
            "device='cpu'."
        )
    if device.type == "cuda" and device.index is None:
        count = torch.cuda.device_count()
        number = _worker_number() if count > 1 and in_worker() else torch.cuda.current_device()
        return torch.device("cuda", number % count)
    return device


def _worker_number():
    import multiprocessing
    import threading

    for name in (multiprocessing.current_process().name, threading.current_thread().name):
        digits = "".join(c for c in name.rpartition("-")[2] if c.isdigit())
        if digits:
            return int(digits)
    return threading.get_ident()
