"""A measurement as pictures: one SVG and one PNG, with a subplot for each panel.

Lines go through medians, with the spread of the samples around them; hollow marks are what the paper prints. Panels of
kind "table" are not drawn.
"""

from __future__ import annotations

import importlib.util
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from earmark.errors import EarmarkError
from earmark.report.claims.words import text_of
from earmark.report.experiment import Measurement, Panel

COLOURS = ("#0b6bcb", "#d1480f", "#1a8a4a", "#8338b8", "#b8860b", "#d6336c", "#0f8f8f", "#6b6b6b")
"""Distinct on white and in greyscale order; a series beyond the eighth starts over with another line style."""
MARKS = "os^Dv*Xp"
STYLES = ("-", "--", ":")
LOOK: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "axes.axisbelow": True,
}
LABELS, SERIES = 40, 6
"""Letters of all labels that fit below an axis; series whose legend fits inside it."""
HEADROOM = 0.25
"""Of the height of bars: room for the legend above them."""
PANEL_WIDTH, PANEL_HEIGHT, COLUMNS = 4.8, 3.5, 2


def check_installed() -> None:
    """Raise EarmarkError when a package of the extra is not installed."""
    for package in ("matplotlib", "rtree"):
        if importlib.util.find_spec(package) is None:
            raise EarmarkError(f"earmark paper needs {package}: pip install 'earmark[report]'")


def drawn_panels(measurement: Measurement) -> list[Panel]:
    """Return the panels of a measurement that are drawn."""
    return [panel for panel in measurement.panels if panel.kind != "table" and measurement.of_panel(panel.name)]


def draw(measurement: Measurement, folder: Path) -> list[str]:
    """Write FOLDER/vcr/figure-6.svg and .png, and return an SVG for each of `drawn_panels`."""
    panels = drawn_panels(measurement)
    if not panels:
        return []
    check_installed()
    import matplotlib as mpl

    with mpl.rc_context(LOOK | {"svg.hashsalt": measurement.key}):  # type: ignore[arg-type]
        figure = _figure(measurement, panels, min(COLUMNS, len(panels)))
        file = folder / measurement.paper / f"{measurement.name}.svg"
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file.with_suffix(".png"), dpi=150)
        file.write_text(_svg(figure), encoding="utf-8")
        return [_svg(_figure(measurement, [panel], 1)) for panel in panels]


def _figure(measurement: Measurement, panels: Sequence[Panel], columns: int) -> Any:
    from matplotlib.figure import Figure

    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(PANEL_WIDTH * columns, PANEL_HEIGHT * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    for axis, panel in zip(axes, panels, strict=False):
        (_bars if panel.kind == "bars" else _lines)(axis, measurement, panel)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    return figure


def _svg(figure: Any) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def _lines(axis: Any, measurement: Measurement, panel: Panel) -> None:
    """Draw series over the x axis; names are put at equal distances."""
    places = measurement.places(panel.name)
    named = any(isinstance(x, str) for x in places)
    position = {x: float(places.index(x)) if named else float(x) for x in places}
    for number, series in enumerate(measurement.of_panel(panel.name)):
        colour = COLOURS[number % len(COLOURS)]
        mark, style = MARKS[number % len(MARKS)], STYLES[number // len(COLOURS) % len(STYLES)]
        points = [point for point in series.points if point.samples]
        x = [position[point.x] for point in points]
        axis.plot(
            x, [point.median for point in points], style, marker=mark, ms=4, lw=1.5, color=colour, label=series.name
        )
        axis.fill_between(
            x, [point.low for point in points], [point.high for point in points], color=colour, alpha=0.15, lw=0
        )
        printed = [(position[p.x], p.value) for p in measurement.printed
                   if (p.panel, p.series) == (panel.name, series.name) and p.x in position]  # fmt: skip
        if printed:
            axis.plot(*zip(*printed, strict=True), mark, ms=7, mfc="none", color=colour)
    if panel.log_x:
        axis.set_xscale("log")
    if named or len(places) <= 8:
        axis.set_xticks([position[x] for x in places], [_short(x) for x in places])
        axis.minorticks_off()
    _finish(axis, panel)


def _bars(axis: Any, measurement: Measurement, panel: Panel) -> None:
    """Draw one group of bars per place."""
    places = measurement.places(panel.name)
    lines = measurement.of_panel(panel.name)
    width = 0.8 / len(lines)
    for number, series in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        points = [point for point in series.points if point.samples]
        left = [places.index(point.x) - 0.4 + (number + 0.5) * width for point in points]
        spread = [[point.median - point.low for point in points], [point.high - point.median for point in points]]
        axis.bar(
            left, [point.median for point in points], width * 0.92, yerr=spread, color=colour, label=series.name,
            error_kw={"lw": 0.8, "ecolor": "#444"},
        )  # fmt: skip
        for point, x in zip(points, left, strict=True):
            printed = measurement.printed_at(panel.name, series.name, point.x)
            if printed is not None:
                axis.plot([x], [printed], "D", ms=5, mfc="white", color=colour)
    labels = [_short(x) for x in places]
    axis.set_xticks(range(len(places)), labels, rotation=20 if sum(map(len, labels)) > LABELS else 0)
    _finish(axis, panel)
    low, high = axis.get_ylim()
    axis.set_ylim(top=high * (high / low) ** HEADROOM if panel.log_y else high + (high - low) * HEADROOM)
    axis.legend(frameon=False, fontsize=8, ncols=3, loc="upper left")


def _short(x: Any) -> str:
    """Return a label for the axis: 256,000 as 256k."""
    if isinstance(x, (int, float)) and abs(x) >= 10_000:
        return f"{x / 1e6:g}M" if abs(x) >= 1e6 else f"{x / 1e3:g}k"
    return text_of(x)


def _steps(low: float, high: float) -> tuple[float, ...]:
    """Return the digits at which a logarithmic axis has labels: more of them where it spans fewer decades."""
    decades = math.log10(high / low) if low > 0 else 9.0
    return (1.0, 2.0, 5.0) if decades < 3 else (1.0,)


def _finish(axis: Any, panel: Panel) -> None:
    if panel.log_y:
        from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=_steps(*axis.get_ylim())))
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        axis.yaxis.set_minor_formatter(NullFormatter())
    elif axis.get_ylim()[0] >= 0 or panel.kind != "bars":
        axis.set_ylim(bottom=0)
    else:
        axis.axhline(0, color="#444", lw=0.8)
    axis.set_title(panel.name, fontsize=10, loc="left")
    axis.set_xlabel(panel.x)
    axis.set_ylabel(panel.unit)
    if panel.kind == "lines" and len(axis.get_legend_handles_labels()[0]) > SERIES:
        axis.legend(frameon=False, fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    else:
        axis.legend(frameon=False, fontsize=8)
