"""Traffic and table size by policy, drawn with matplotlib (the extra `report`).

`draw` has a row of bars per policy for each figure: control messages, their bytes, table entries, and hops of
publications, those of no use in a second colour. Colours are those of people who cannot tell red from green.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from earmark.overlay.simulation.report import Report

USED, UNUSED, INK = "#3b6ea5", "#e08214", "#333333"
COLOURS = (UNUSED, USED, "#1b9e77", "#762a83", "#a6761d", INK)
ROW = 0.34
"""Inches per bar."""


def draw(reports: Sequence[Report], folder: Path, name: str = "policies") -> list[Path]:
    """Draw the figures of runs of one plan; returns the files, a PNG and an SVG."""
    first = reports[0]
    title = f"{first.content}: {first.subscriptions:,} subscriptions, {first.publications:,} publications"
    return draw_bars(
        [report.policy for report in reports],
        {
            "control messages": [report.control for report in reports],
            "their bytes": [report.control_bytes for report in reports],
            "table entries": [report.entries for report in reports],
            "hops of publications": [report.hops for report in reports],
        },
        f"{title}\non {first.topology} ({first.brokers:,} brokers)",
        folder / name,
        {"hops of publications": [report.false_positives for report in reports]},
    )


def draw_bars(
    names: Sequence[str],
    panels: dict[str, Sequence[float]],
    title: str,
    file: Path,
    wasted: dict[str, Sequence[float]] | None = None,
    formats: Sequence[str] = ("png", "svg"),
    columns: int | None = None,
) -> list[Path]:
    """Draw a panel of horizontal bars for each figure; `wasted` is the part of a panel's bars in a second colour.

    `columns` is how many panels are side by side; all of them, unless said otherwise.
    """
    pyplot = _pyplot()
    across = columns or len(panels)
    down = -(-len(panels) // across)
    size = (3.1 * across + 1.2, 0.7 + (0.4 + ROW * len(names)) * down)
    figure, axes = pyplot.subplots(down, across, figsize=size, sharey=True, squeeze=False)
    places = list(range(len(names)))
    for axis, (what, values) in zip(axes.flat, panels.items(), strict=False):
        axis.barh(places, values, color=USED, height=0.62)
        extra = (wasted or {}).get(what)
        if extra is not None and any(extra):
            axis.barh(places, extra, color=UNUSED, height=0.62)
            what += " (orange: of no use)"
        _panel(axis, what, places, names, values)
    axes[0][0].invert_yaxis()  # shared by all panels
    files = [file.with_suffix(f".{kind}") for kind in formats]
    _save(pyplot, figure, title, files)
    return files


def draw_lines(
    panels: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]],
    below: str,
    beside: str,
    title: str,
    file: Path,
    is_log: bool = False,
) -> None:
    """Draw a panel of lines for each name: a line for each policy, by points; on logarithmic axes if `is_log`."""
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(1, len(panels), figsize=(4.2 * len(panels), 3.2), squeeze=False)
    for axis, (what, lines) in zip(axes[0], panels.items(), strict=True):
        for (name, points), colour, mark in zip(lines.items(), COLOURS, "os^Dvx", strict=False):
            axis.plot(*zip(*points, strict=True), color=colour, marker=mark, label=name)
        axis.set_title(what, fontsize=9, color=INK)
        if is_log:
            axis.set_xscale("log")
            axis.set_yscale("log")
        else:
            axis.set_ylim(bottom=0)
            axis.set_xticks(sorted({x for points in lines.values() for x, _ in points}))
        axis.set_xlabel(below, fontsize=8.5)
        axis.tick_params(labelsize=8)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    axes[0][0].set_ylabel(beside, fontsize=8.5)
    axes[0][-1].legend(fontsize=8, frameon=False)
    _save(pyplot, figure, title, [file])


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "earmark"  # the same picture is the same file
    from matplotlib import pyplot

    return pyplot


def _save(pyplot: Any, figure: Any, title: str, files: Sequence[Path]) -> None:
    figure.suptitle(title, fontsize=10, color=INK)
    figure.tight_layout()
    for target in files:
        clean: dict[str, Any] = {"metadata": {"Date": None}} if target.suffix == ".svg" else {}
        figure.savefig(target, dpi=120, **clean)
    pyplot.close(figure)


def _panel(axis: Any, what: str, places: list[int], names: Sequence[str], values: Sequence[float]) -> None:
    axis.set_title(what, fontsize=9, color=INK)
    axis.set_yticks(places, names, fontsize=8.5)
    most = max([*values, 1])
    axis.set_xlim(0, most * 1.28)
    for place, value in zip(places, values, strict=True):
        axis.text(value + most * 0.02, place, short(value), va="center", fontsize=8, color=INK)
    axis.set_xticks([])
    for side in ("top", "right", "bottom"):
        axis.spines[side].set_visible(False)


def short(value: float) -> str:
    """Return a number in a few characters: 950, 12.3k, 4.56M."""
    for unit in ("", "k", "M", "G"):
        if abs(value) < 1_000 or unit == "G":
            return f"{value:.0f}" if unit == "" else f"{value:.3g}{unit}"
        value /= 1_000
    return f"{value:.0f}"
