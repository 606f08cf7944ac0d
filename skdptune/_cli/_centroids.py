"""The candidate of ``demo`` where diffprivlib is missing: class centroids with Gaussian noise."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from skdptune.accounting import PrivacyCurve

__all__ = ["NoisyCentroids"]


class NoisyCentroids(ClassifierMixin, BaseEstimator):
    """Nearest centroid of classes, from noisy sums and counts.

    Parameters
    ----------
    radius : float, default=4.0
        Rows farther from ``centre`` than this are pulled to that distance.
    pseudo_count : float, default=1.0
        Added to each count: pulls centroids of small classes towards ``centre``.
    noise_multiplier : float, default=4.0
        Standard deviation of the noise over the norm of one row's contribution.
    centre : float, default=0.0
        A public value in the middle of every column.
    classes : array-like of shape (n_classes,) or None
        The public label set; a search passes its own.
    random_state : None
        A search passes a generator of its own to every run.

    Notes
    -----
    *Guarantee.* Each row adds one vector, its clipped self and ``radius`` (for the count), to the block of its
    class; that vector's norm is at most sqrt(2) radius. All sums get Gaussian noise of ``noise_multiplier`` times
    that norm, and what is published is computed from the noisy sums: the Gaussian mechanism.

    Examples
    --------
    >>> from skdptune._cli._centroids import NoisyCentroids
    >>> X, y = np.repeat([[-1.0], [1.0]], 500, axis=0), np.repeat([0, 1], 500)
    >>> model = NoisyCentroids(radius=1.0, classes=[0, 1], random_state=0).fit(X, y)
    >>> model.predict([[-1.0], [1.0]])
    array([0, 1])
    """

    privacy_params = ("noise_multiplier",)
    privacy_relations = ("zero-out", "replace-one", "add-remove")
    published_attributes = ("centroids_", "classes_", "n_features_in_", "feature_names_in_")

    def __init__(
        self, radius=4.0, pseudo_count=1.0, noise_multiplier=4.0, centre=0.0, classes=None, random_state=None
    ):
        self.radius = radius
        self.pseudo_count = pseudo_count
        self.noise_multiplier = noise_multiplier
        self.centre = centre
        self.classes = classes
        self.random_state = random_state

    def privacy_curve(self, n_samples, relation):
        """Return the cost of one fit; it does not depend on ``n_samples``."""
        return PrivacyCurve.gaussian(self.noise_multiplier, relation=relation)

    def fit(self, X, y):
        """Release noisy centroids of the declared classes."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        self.classes_ = np.asarray(self.classes)
        rows = X - self.centre
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows * np.minimum(1.0, self.radius / np.maximum(norms, 1e-12))
        rows = np.hstack([rows, np.full((len(rows), 1), float(self.radius))])
        sums = np.stack([rows[y == label].sum(axis=0) for label in self.classes_])
        scale = self.noise_multiplier * np.sqrt(2.0) * self.radius
        noisy = sums + check_random_state(self.random_state).normal(scale=scale, size=sums.shape)
        counts = np.maximum(noisy[:, -1:] / self.radius, 0.0) + max(self.pseudo_count, 1e-6)
        self.centroids_ = self.centre + noisy[:, :-1] / counts
        return self

    def predict(self, X):
        """Return the class of the nearest centroid, shape (n_samples,)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        distances = ((X[:, None, :] - self.centroids_) ** 2).sum(axis=2)
        return self.classes_[distances.argmin(axis=1)]
