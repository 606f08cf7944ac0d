"""RandomForestClassifier and DecisionTreeClassifier: random trees with noisy majority leaves."""

import numpy as np

from skdptune._exceptions import CandidateRefusedError
from skdptune.candidates._diffprivlib import _checks
from skdptune.candidates._diffprivlib._base import DiffprivlibAdapter, blank
from skdptune.candidates._diffprivlib._library import fresh_accountant, require_diffprivlib
from skdptune.candidates._diffprivlib._noise import SPEND
from skdptune.candidates._diffprivlib._rows import clip_rows
from skdptune.candidates._diffprivlib._tree import CleanTree

__all__ = ["DecisionTreeAdapter", "RandomForestAdapter"]

_MAX_DEPTH = 24  # 2**25 nodes: more is a mistake rather than a wish
_MAX_TREES = 100_000


class DecisionTreeAdapter(DiffprivlibAdapter):
    """Adapter of ``diffprivlib.models.DecisionTreeClassifier``.

    Notes
    -----
    *Releases* a tree whose columns and thresholds are drawn without looking at the rows, and for each
    leaf one label.

    *Spends* epsilon on each leaf: permute-and-flip on the counts of the labels, with scale epsilon
    (``monotonic=True``), which is the report of the noisy maximum under exponential noise of scale
    1/epsilon. A row is in one leaf and adds to one count, so dropping or blanking it costs epsilon;
    changing it lowers one count and raises another, in one leaf or two, and costs 2 epsilon. n enters
    nowhere: empty leaves draw a label uniformly, as the mechanism does for counts that are all 0.

    *Differs from the library's fit*: thresholds and noise come from a source that cannot be run
    backwards (the library's trees keep integer seeds of 31 bits that replay all their noise); labels are
    encoded here (the library mishandles labels other than 0, 1, ...).
    """

    cost_per_epsilon = {"zero-out": 1.0, "replace-one": 2.0, "add-remove": 1.0}
    wants = "labels"
    published = ("classes_", "n_classes_", "n_outputs_", "tree_")

    def _check_model(self):
        super()._check_model()
        _checks.check_bounds(self.name, "bounds", self.estimator.bounds)
        _checks.check_declared_classes(self.name, self.estimator.classes)
        _checks.check_integer_parameter(
            self.name, "max_depth", self.estimator.max_depth, 1, _MAX_DEPTH, "Pass e.g. max_depth=5."
        )

    def check_data(self, n_samples, n_features, classes):
        """Refuse bounds for another number of columns, and labels that ``classes`` does not declare."""
        _checks.check_bounds_width(self.name, "bounds", self.estimator.bounds, n_features)
        if classes is None:
            return
        declared = set(np.ravel(np.asarray(self.estimator.classes)).tolist())
        missing = [label for label in np.asarray(classes).tolist() if label not in declared]
        if missing:
            raise CandidateRefusedError(
                f"{self.name}: classes must contain every label of the search's classes; {missing[0]!r} is "
                f"missing. Pass classes={np.asarray(classes).tolist()!r} to the estimator."
            )

    def _labels(self, classes):
        return _checks.check_declared_classes(self.name, self.estimator.classes)

    def _own_assumptions(self):
        return ("bounds and classes were chosen without the private rows.",)

    def _grow(self, rows, target, n_classes, rng):
        """Return a scikit-learn ``Tree`` with a noisy label in every leaf."""
        bounds = _checks.bounds_arrays(self.estimator.bounds, rows.shape[1])
        max_depth = int(self.estimator.max_depth)
        module = require_diffprivlib().models.forest
        epsilon = SPEND * float(self.estimator.epsilon)
        plan = module._FittingTree(
            max_depth, rows.shape[1], np.arange(n_classes), epsilon, bounds, rng
        ).build()
        nodes = _node_array(plan.nodes, module.NODE_DTYPE)
        values = np.zeros((len(nodes), 1, n_classes))
        leaves = np.flatnonzero(nodes["left_child"] == -1)
        tree = _sklearn_tree(rows.shape[1], n_classes, max_depth, nodes, values)
        counts = _leaf_counts(tree, rows, target, n_classes)
        for leaf in leaves:
            mechanism = require_diffprivlib().mechanisms.PermuteAndFlip(
                epsilon=epsilon,
                sensitivity=1,
                monotonic=True,
                utility=counts[leaf].tolist(),
                random_state=rng,
            )
            values[leaf, 0, mechanism.randomise()] = 1.0
        return _sklearn_tree(rows.shape[1], n_classes, max_depth, nodes, values)

    def _train(self, rows, target, classes, rng):
        labels = self._labels(classes)
        rows = clip_rows(rows, _checks.bounds_arrays(self.estimator.bounds, rows.shape[1]))
        return {
            "classes_": labels,
            "n_classes_": len(labels),
            "n_outputs_": 1,
            "tree_": self._grow(rows, target, len(labels), rng),
        }


class RandomForestAdapter(DecisionTreeAdapter):
    """Adapter of ``diffprivlib.models.RandomForestClassifier``.

    Notes
    -----
    Each row goes to exactly one tree, by its position or (``shuffle=True``) by a coin of its own, never by
    its content; each tree costs what :class:`DecisionTreeAdapter` states, so the forest does too (parallel
    composition). Replacing a row leaves it in its tree. Under add-remove, places by position shift
    for all rows after the one that goes, so only ``shuffle=True`` or one tree is accepted.

    *Differs from the library's fit*: with ``shuffle=True`` rows are dealt by independent coins instead of
    a permutation of all.
    """

    published = ("classes_", "n_classes_", "n_outputs_", "estimators_")

    def _check_model(self):
        super()._check_model()
        _checks.check_integer_parameter(
            self.name, "n_estimators", self.estimator.n_estimators, 1, _MAX_TREES,
            "Pass e.g. n_estimators=10.",
        )  # fmt: skip

    def _check_relation(self, relation):
        if relation == "add-remove" and not (
            self.estimator.shuffle or int(self.estimator.n_estimators) == 1
        ):
            raise _checks.refusal(
                self.name,
                "shuffle",
                "True (or n_estimators 1) under relation='add-remove'",
                self.estimator.shuffle,
                "Rows are dealt to trees by position, so dropping one moves the others from tree to tree.",
            )

    def _train(self, rows, target, classes, rng):
        labels = self._labels(classes)
        rows = clip_rows(rows, _checks.bounds_arrays(self.estimator.bounds, rows.shape[1]))
        n_samples, n_trees = len(rows), int(self.estimator.n_estimators)
        if self.estimator.shuffle:
            place = (rng.random(n_samples) * n_trees).astype(np.intp)
        else:
            place = np.arange(n_samples) * n_trees // n_samples
        trees = []
        for i in range(n_trees):
            mine = place == i
            tree = self._grow(rows[mine], target[mine], len(labels), rng)
            trees.append(self._member(tree, len(labels), rows.shape[1]))
        return {
            "classes_": labels,
            "n_classes_": len(labels),
            "n_outputs_": 1,
            "estimators_": trees,
        }

    def _member(self, tree, n_classes, n_features):
        """Return a fitted tree of the forest; its classes are positions, as scikit-learn's forests expect."""
        member = require_diffprivlib().models.DecisionTreeClassifier(
            max_depth=int(self.estimator.max_depth),
            epsilon=float(self.estimator.epsilon),
            bounds=self.estimator.bounds,
            classes=list(range(n_classes)),
            accountant=fresh_accountant(),
        )
        member.classes_ = np.arange(n_classes)
        member.n_classes_ = n_classes
        member.n_outputs_ = 1
        member.n_features_in_ = n_features
        member.tree_ = tree
        return member

    def _model(self, outputs):
        model = super()._model(outputs)
        model.estimator = blank(model.estimator)  # its constructor took the process-wide accountant
        model.estimator_ = blank(model.estimator)
        return model


def _node_array(nodes, dtype):
    """Return the nodes as the structured array that scikit-learn's trees are made of, padded with zeros."""
    array = np.zeros(len(nodes), dtype=dtype)
    for name in ("left_child", "right_child", "feature", "threshold"):
        array[name] = [getattr(node, name) for node in nodes]
    return array


def _sklearn_tree(n_features, n_classes, max_depth, nodes, values):
    tree = CleanTree(n_features, np.array([n_classes], dtype=np.intp), 1)
    tree.__setstate__(
        {"max_depth": max_depth, "node_count": len(nodes), "nodes": nodes, "values": values}
    )
    return tree


def _leaf_counts(tree, rows, target, n_classes):
    """Return the number of rows of each class in each node, an int array of shape (n_nodes, n_classes)."""
    counts = np.zeros((tree.node_count, n_classes), dtype=np.int64)
    known = target >= 0
    if known.any():
        leaf = tree.apply(np.ascontiguousarray(rows[known], dtype=np.float32))
        np.add.at(counts, (leaf, target[known]), 1)
    return counts
