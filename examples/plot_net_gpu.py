"""
Nets on a GPU
=============

One GPU trains several candidates at a time: a small net leaves most of it idle, so runs of a search share the device,
and with several GPUs they take turns. Without a GPU this example says so and stops.
"""

# %%
# Nothing but ``device`` changes. Workers are processes, each with a share of the device's memory, which
# ``physical_batch_size`` bounds: rows are on the device one physical batch at a time.
import time

import numpy as np
import torch

from skdptune import PrivateRandomSearchCV
from skdptune.candidates.nets import DPNeuralNetClassifier, LinearDecay
from skdptune.run_counts import Fixed

found = torch.cuda.is_available()
print("training on", torch.cuda.get_device_name() if found else "nothing: no GPU was found, so this example stops here")

# %%
# Made-up rows, in the shape of a table with 64 columns and four classes.
generator = np.random.default_rng(0)
centres = generator.normal(size=(4, 64))
y = generator.integers(0, 4, 20_000)
X = (centres[y] + 2 * generator.normal(size=(20_000, 64))).astype(np.float32)


def seconds(n_jobs):
    """Return how long a search of eight tries takes with so many runs on the device at a time."""
    net = DPNeuralNetClassifier(
        module__hidden=(256, 256), expected_batch_size=512, max_epochs=3, physical_batch_size=4096, device="cuda"
    )
    space = {"lr": [0.5, 1.0, 2.0], "lr_schedule": [None, LinearDecay(start=2.0, decay_steps=60)]}
    search = PrivateRandomSearchCV(net, space, n_iter=Fixed(8), classes=range(4), n_jobs=n_jobs)
    start = time.perf_counter()
    search.fit(X, y)
    taken = time.perf_counter() - start
    print(f"{n_jobs} at a time: {taken:.1f} s, noisy held-out accuracy {search.best_score_:.3f}")
    return taken


# %%
# Fewer seconds with more runs at a time, until the device is full. The published model is on the CPU.
if found:
    times = [seconds(n_jobs) for n_jobs in (1, 2, 4)]

# sphinx_gallery_thumbnail_path = '_static/thumb_net_gpu.svg'
