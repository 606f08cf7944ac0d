"""What displays with one line for each curve share: how they are drawn, and drawn again."""

from skdptune.displays import _drawing as drawing

__all__ = ["CurvesDisplay"]


class CurvesDisplay:
    """A display with one line for each of several curves; subclasses say what they look like in ``_draw``."""

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
        return self._plot(ax, name, legend, line_kwargs)

    def _plot(self, ax, name, legend, line_kwargs, **options):
        own = ax is None
        ax = drawing.axes_for(f"{type(self).__name__}.plot", ax)
        self.lines_ = self._draw(ax, f"{name}: " if name else "", line_kwargs, **options)
        self.line_ = next(iter(self.lines_.values()))
        self._draw_legend(ax, legend)
        self.ax_, self.figure_ = ax, ax.figure
        if own:
            drawing.tighten(self.figure_)
        return self

    def _draw_legend(self, ax, wanted):
        drawing.legend_for(ax, wanted, loc=self._LEGEND_PLACE)

    def _draw(self, ax, prefix, line_kwargs):
        """Draw one line for each curve, set up the axes, and return the lines by name.

        Further options are those that a subclass' ``plot`` hands to ``_plot``.
        """
        raise NotImplementedError
