"""What displays with one line for each curve share: how they are drawn, and drawn again."""

from skdptune.displays import _drawing as drawing

__all__ = ["CurvesDisplay"]


class CurvesDisplay:
    """A display whose lines come from a dictionary ``curves``; subclasses say what they look like in ``_draw``."""

    _LEGEND_PLACE = "best"

    def plot(self, ax=None, *, name=None, legend=True, **line_kwargs):
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None: in a new figure. Axes that hold lines of another display get further styles.
        name : str, optional
            Put before every label, to tell several displays on one axes apart.
        legend : bool, default=True
        **line_kwargs
            For every line, e.g. ``linewidth=1``.

        Returns
        -------
        object
            The display itself, with the artists in its attributes.

        Raises
        ------
        InvalidTypeError, InvalidParameterError
            If ``ax`` is not one pair of axes with straight scales in a figure.
        MissingDependencyError
            Without matplotlib.
        """
        ax = drawing.axes_for(f"{type(self).__name__}.plot", ax)
        self.lines_ = self._draw(ax, f"{name}: " if name else "", line_kwargs)
        self.line_ = next(iter(self.lines_.values()))
        drawing.legend_for(ax, legend, loc=self._LEGEND_PLACE)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw(self, ax, prefix, line_kwargs):
        """Draw one line for each curve, set up the axes, and return the lines by name."""
        raise NotImplementedError
