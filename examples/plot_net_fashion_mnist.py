"""
A convolutional net on Fashion-MNIST
====================================

A small convolutional net with bounded activations (Papernot et al. 2020, arXiv 2007.14191v1) is tuned on Fashion-MNIST,
60,000 images of clothes. The images come from Debian's package ``dataset-fashion-mnist``; without it the example uses
the digits that scikit-learn ships, so that it runs anywhere. For a GPU see
:ref:`sphx_glr_auto_examples_plot_net_gpu.py`.
"""

# %%
# The rows. A pixel is a number from 0 to 255 by its meaning, and the ten kinds of clothes are known.
import gzip
import os
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from skdptune import PrivateRandomSearchCV
from skdptune.candidates.nets import DPNeuralNetClassifier, TemperedSigmoid, dp_sgd_search_space
from skdptune.report import round_up

folder = Path(os.environ.get("FASHION_MNIST", "/usr/share/datasets/fashion-mnist"))
rows = int(os.environ.get("SKDPTUNE_EXAMPLE_ROWS", "6000"))  # 60000 for the whole set


def fashion(part):
    images = gzip.open(folder / f"{part}-images-idx3-ubyte.gz").read()
    labels = gzip.open(folder / f"{part}-labels-idx1-ubyte.gz").read()
    return (
        np.frombuffer(images, np.uint8, offset=16).reshape(-1, 28 * 28) / np.float32(255),
        np.frombuffer(labels, np.uint8, offset=8).astype(int),
    )


if (folder / "train-images-idx3-ubyte.gz").exists():
    X, y = (part[:rows] for part in fashion("train"))
    X_test, y_test = fashion("t10k")
    side = 28
else:
    print("dataset-fashion-mnist is not installed: scikit-learn's digits instead")
    X, y = load_digits(return_X_y=True)
    X, y, X_test, y_test = X[:1400] / 16, y[:1400], X[1400:] / 16, y[1400:]
    side = 8

# %%
# The module takes flat rows and reshapes them. Its sizes are chosen without the data. It is built of torch's own layers
# in ``nn.Sequential``: of these it is known that each row is treated by itself, so nothing need be assumed of code.


def images(side, n_outputs, channels=(16, 32)):
    """Return two convolutions and two linear layers with tempered sigmoids."""
    kernel, stride = (8, 2) if side == 28 else (3, 1)
    layers = [
        nn.Unflatten(1, (1, side, side)),
        nn.Conv2d(1, channels[0], kernel, stride, padding=2), TemperedSigmoid(), nn.MaxPool2d(2, 1),
        nn.Conv2d(channels[0], channels[1], 4, 2), TemperedSigmoid(), nn.MaxPool2d(2, 1), nn.Flatten(),
    ]
    width = nn.Sequential(*layers)(torch.zeros(1, side * side)).shape[1]
    return nn.Sequential(*layers, nn.Linear(width, 32), TemperedSigmoid(), nn.Linear(32, n_outputs))


net = DPNeuralNetClassifier(images, module__side=side, expected_batch_size=256, max_epochs=10, physical_batch_size=512)

# %%
# The space follows the rules of thumb of the literature, from the public number of rows. The target is that of the
# whole search. Every candidate, whatever its batch size and length, gets the noise that brings it below one common
# level.
space = dp_sgd_search_space(len(X), epsilon=3.0, epochs=(5, 10), norms=(0.1, 1.0))
search = PrivateRandomSearchCV(net, space, n_iter=3, epsilon=3.0, delta=1e-5, classes=range(10), n_jobs=2)
price = search.privacy_cost(n_samples=len(X))
single, whole = (round_up(cost.epsilon(1e-5), 3) for cost in (price.single_run, price))
print(f"single run epsilon {single}, whole search {whole} at delta 1e-5")

search.fit(X, y)
print("parameters:", search.best_params_)
print(f"accuracy on held-out private rows (noisy): {search.best_score_:.3f}")
print(f"accuracy on the public test images: {search.score(X_test, y_test):.3f}")

# %%
# What the net confuses, on public test images.
import matplotlib.pyplot as plt  # pip install ".[plot]"
from sklearn.metrics import ConfusionMatrixDisplay

figure, axes = plt.subplots(figsize=(5, 5))
ConfusionMatrixDisplay.from_predictions(y_test, search.predict(X_test), normalize="true", include_values=False, ax=axes)
figure.tight_layout()
figure.savefig("net_fashion_mnist.png", dpi=120)

# sphinx_gallery_thumbnail_path = '_static/thumb_net_fashion_mnist.svg'
