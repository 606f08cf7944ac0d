"""A search space that follows the rules of thumb of the literature."""

import math

from skdptune._validation import check_integer
from skdptune.candidates.nets._schedules import LinearDecay

__all__ = ["dp_sgd_search_space"]


def dp_sgd_search_space(n_samples, *, epsilon=None, epochs=(5, 10, 20, 40), norms=(0.1, 0.3, 1.0), prefix=""):
    """Return lists of settings for a DP-SGD net on ``n_samples`` rows, from public numbers alone.

    Parameters
    ----------
    n_samples : int
        Public number of training rows.
    epsilon : float or None
        The target of one training, if known. Small targets leave long, hot trainings out.
    epochs : sequence of int
        Numbers of epochs to try.
    norms : sequence of float
        Clipping norms to try.
    prefix : str, default=""
        Put before every name, e.g. ``"net__"`` for a step of a pipeline.

    Returns
    -------
    list of dict
        For ``param_distributions``: one dict per clipping norm, because the learning rates to try depend
        on it.

    Notes
    -----
    - Lots near the square root of n, and somewhat above; epochs of the order of the number of lots in one; a
      learning rate that starts high, falls linearly over a few epochs and then stays: Abadi et al. [1]_,
      section 3.3.
    - The step that a clipped gradient makes is at most ``lr * norm``. Where the norm clips most rows the two act only
      as a product ([2]_), so a small norm is kept and the rate searched: rates are listed as step / norm.
    - Long steps need budget: the best product of rate and steps grows with epsilon ([3]_).

    References
    ----------
    .. [1] Abadi et al., arXiv 1607.00133v2.
    .. [2] Mohapatra, Sasy, He, Kamath and Thakkar, arXiv 2111.04906v1.
    .. [3] Panda, Tang, Mahloujifar, Sehwag and Mittal, ICML 2024, arXiv 2212.04486.

    Examples
    --------
    >>> space = dp_sgd_search_space(10_000)
    >>> space[0]["expected_batch_size"]
    [100, 200, 400]
    >>> sorted(space[0])
    ['expected_batch_size', 'lr', 'lr_schedule', 'max_epochs', 'max_grad_norm']
    """
    n_samples = check_integer("n_samples", n_samples, low=1)
    root = max(1, round(math.sqrt(n_samples)))
    lots = sorted({min(n_samples, size) for size in (root, 2 * root, 4 * root)})
    # rate times norm is the longest step; long ones need a budget that pays for their noise
    steps = [0.1, 0.2, 0.5, 1.0] + ([2.0] if epsilon is None or epsilon > 4 else [])
    decay = LinearDecay(start=2.0, decay_steps=max(1, 2 * -(-n_samples // root)))
    spaces = []
    for norm in norms:
        names = {
            "expected_batch_size": lots,
            "max_epochs": list(epochs),
            "max_grad_norm": [norm],
            "lr": [step / norm for step in steps],
            "lr_schedule": [None, decay],
        }
        spaces.append({prefix + name: values for name, values in names.items()})
    return spaces
