"""
A net and a linear model on a table
===================================

Two candidates for one table, priced alike: logistic regression by noisy gradient steps, with an intercept, and a
multilayer perceptron. The table is scikit-learn's breast cancer set (569 patients, 30 measurements): few rows, so
privacy is dear and simple models do well.
"""

# %%
# Public knowledge: the ranges of the measurements. They must come from what is measured, never from the rows; here
# they are generous round numbers.
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from skdptune import PrivateRandomSearchCV
from skdptune.candidates.nets import DPLogisticRegression, DPNeuralNetClassifier
from skdptune.report import round_up

data = load_breast_cancer()
low = np.zeros(30)
one = np.array([30, 40, 200, 2500, 0.2, 0.4, 0.5, 0.2, 0.4, 0.1])
error = np.array([3, 5, 22, 550, 0.04, 0.14, 0.4, 0.06, 0.08, 0.03])
worst = np.array([40, 50, 260, 4300, 0.3, 1.1, 1.3, 0.3, 0.7, 0.3])
high = np.concatenate([one, error, worst])
X, X_test, y, y_test = train_test_split(data.data, data.target, test_size=150, random_state=0)

# %%
# The linear model scales its columns itself, from public bounds, and shrinks nothing that was not asked for.
linear = PrivateRandomSearchCV(
    DPLogisticRegression(feature_bounds=(low, high), expected_batch_size=80, max_epochs=10),
    {"lr": [0.5, 1.0, 2.0, 4.0], "max_grad_norm": [0.3, 1.0]},
    n_iter=5, epsilon=4.0, delta=1e-4, classes=[0, 1],
)
linear.fit(X, y)

# %%
# The perceptron sees the same columns through a stateless scaling.
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdptune.candidates import row_wise


@row_wise
def scaled(X):
    """Map every column to [-1, 1] by public bounds."""
    return 2 * np.clip(np.asarray(X) / high, 0, 1) - 1


perceptron = PrivateRandomSearchCV(
    make_pipeline(FunctionTransformer(scaled), DPNeuralNetClassifier(expected_batch_size=80, max_epochs=10)),
    {
        "dpneuralnetclassifier__lr": [0.2, 0.5, 1.0, 2.0],
        "dpneuralnetclassifier__module__hidden": [(8,), (32,), (16, 16)],
    },
    n_iter=5, epsilon=4.0, delta=1e-4, classes=[0, 1],
)
perceptron.fit(X, y)

for name, search in (("logistic regression", linear), ("perceptron", perceptron)):
    print(f"{name}: epsilon {round_up(search.privacy_spent_.epsilon(1e-4), 3)} at delta 1e-4, {search.best_params_}, "
          f"accuracy on public test rows {search.score(X_test, y_test):.3f}")

# %%
# The weights of the linear model are a private output and may be read.
import matplotlib.pyplot as plt  # pip install ".[plot]"

model = linear.best_estimator_
weights = (model.coef_[1] - model.coef_[0]) * high
order = np.argsort(-np.abs(weights))[:10]
figure, axes = plt.subplots(figsize=(7, 4))
axes.barh([data.feature_names[i] for i in order][::-1], weights[order][::-1])
axes.set(xlabel="weight of benign against malignant, per range of the column", title="DPLogisticRegression, epsilon 4")
figure.tight_layout()
figure.savefig("net_table.png", dpi=120)
