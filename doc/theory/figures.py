"""Draw a worst order of outputs: the figure of the theory pages.

Run as a script, or by ``conf.py`` when the documentation is built. Needs numpy, scipy and
matplotlib, and nothing of the package itself.
"""

import math
from pathlib import Path

import matplotlib
import numpy as np
from scipy import optimize, stats

NOISE = 3.0  # noise multiplier of the single run
MEAN = 10.0  # of the logarithmic count
EPSILON = 1.0
CELLS = 300
BLUE, ORANGE, GREY = "#1f5fa8", "#d9730d", "#8a8a8a"


def logarithmic_attainment(mean):
    """Return G(r) = 1 - f(1 - r) of the logarithmic count with this mean."""
    gamma = optimize.brentq(lambda g: (1 / g - 1) / np.log(1 / g) - mean, 1e-9, 1 - 1e-9)
    return lambda r: 1 - np.log1p(-(1 - gamma) * (1 - r)) / np.log(gamma)


def gaussian_cells(noise, count):
    """Return masses (p, q) of ``count`` cells ascending in ratio, the upper half of them thin."""
    grid = np.linspace(-8 * noise, 8 * noise + 1, 20_001)
    total = stats.norm.cdf(grid, 1, noise) + stats.norm.cdf(grid, 0, noise)
    half = count // 2
    shares = np.concatenate([np.linspace(0, 1.9, half + 1), np.linspace(1.9, 2, count - half + 1)[1:]])
    edges = np.interp(shares[1:-1], total, grid)
    edges = np.concatenate([[-np.inf], edges, [np.inf]])
    return np.diff(stats.norm.cdf(edges, 1, noise)), np.diff(stats.norm.cdf(edges, 0, noise))


def worst_order(p, q, attainment, epsilon):
    """Return the steps ("T", cell) and ("S", cell) of a best path of the program V."""
    n, scale = p.size, np.exp(epsilon)
    low_p, low_q = (np.concatenate([[0], np.cumsum(m)]) for m in (p, q))
    high_p, high_q = (np.concatenate([[0], np.cumsum(m[::-1])]) for m in (p, q))
    value = np.zeros((n + 2, n + 2))  # value[k, j]: k lowest placed as T, j highest as S
    gain = np.zeros((n + 1, n + 1))
    for j in range(n - 1, -1, -1):
        k = np.arange(n - j)
        r, s = low_p[k] + high_p[j], low_q[k] + high_q[j]
        top_p, top_q = p[n - 1 - j], q[n - 1 - j]
        more_p = attainment(r + top_p) - attainment(r)
        more_q = attainment(s + top_q) - attainment(s)
        gain[k, j] = np.maximum(more_p - scale * more_q, 0)
        at_once = gain[k, j] + value[k, j + 1]
        value[k, j] = np.maximum.accumulate(at_once[::-1])[::-1]
    steps, k, j = [], 0, 0
    while k + j < n and value[k, j] > 1e-12:
        if value[k, j] <= gain[k, j] + value[k, j + 1] + 1e-15:
            steps.append(("S", n - 1 - j))
            j += 1
        else:
            steps.append(("T", k))
            k += 1
    return steps, value[0, 0]


def draw(folder):
    """Write ``worst_order.svg`` into ``folder`` and return its path."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    p, q = gaussian_cells(NOISE, CELLS)
    steps, delta = worst_order(p, q, logarithmic_attainment(MEAN), EPSILON)
    cells = np.array([cell for _, cell in steps])
    is_s = np.array([label == "S" for label, _ in steps])
    rank = np.cumsum(p[cells] + q[cells]) / 2
    loss = np.log(p / q)
    rest = np.setdiff1d(np.arange(p.size), cells)[::-1]

    plt.rcParams["svg.hashsalt"] = "skdptune"  # the same file every time
    figure, (upper, lower) = plt.subplots(
        2, 1, figsize=(6.4, 7), height_ratios=[1.4, 1], layout="constrained"
    )
    # shapes as well as colours: read in grey, too
    upper.plot(rank[is_s], loss[cells[is_s]], "v", ms=4, color=ORANGE, label="S, descending")
    upper.plot(rank[~is_s], loss[cells[~is_s]], "^", ms=4, mfc="none", color=BLUE, label="T, ascending")
    if rest.size:
        tail = rank[-1] + np.cumsum(p[rest] + q[rest]) / 2
        upper.plot(tail, loss[rest], "-", lw=2, color=GREY, label="B, any order")
    upper.set(xlabel="rank from the top (share of the mass)", ylabel="log likelihood ratio")
    upper.set_xlim(0, 1)
    upper.legend(loc="lower right", markerscale=1.8)
    least = math.floor(1e4 * delta) / 1e4  # a lower bound: down
    upper.set_title(f"A worst order at epsilon {EPSILON:g}: delta at least {least:.4f}")

    t_used = np.cumsum(np.where(is_s, 0, p[cells] + q[cells])) / 2
    s_used = np.cumsum(np.where(is_s, p[cells] + q[cells], 0)) / 2
    lower.plot(s_used, t_used, color="black", lw=1.2)
    lower.set(xlabel="mass placed as S", ylabel="mass placed as T")
    lower.set_title("The same order as a path x(y)")
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
    path = Path(folder) / "worst_order.svg"
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path


if __name__ == "__main__":
    print(draw(Path(__file__).resolve().parent))
