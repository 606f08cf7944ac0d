"""The order of the gallery: what to read first stands first."""

ORDER = (
    "plot_quickstart",
    "plot_regression",
    "plot_large_table",
    "plot_reading_a_report",
    "plot_choosing_run_count",
    "plot_fixed_repetition",
    "plot_tuning_leak",
    "plot_net_table",
    "plot_net_fashion_mnist",
    "plot_net_gpu",
)


class ReadingOrder:
    """Sphinx-Gallery's key for the scripts of a folder; scripts that are not listed come last, by name."""

    def __init__(self, src_dir):
        self.src_dir = src_dir

    def __call__(self, filename):
        name = filename.removesuffix(".py")
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def setup(app):
    """Say that nothing here stands in the way of a parallel build."""
    return {"parallel_read_safe": True, "parallel_write_safe": True, "version": "1"}
