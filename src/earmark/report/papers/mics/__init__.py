"""MICS (mics.txt): Tables 1 to 3, Figures 7 to 12, and what is beyond them."""

from __future__ import annotations

from earmark.report.papers.mics import beyond
from earmark.report.papers.mics.matching import FIGURE_10
from earmark.report.papers.mics.subscriptions import FIGURE_7, FIGURE_8, FIGURE_9
from earmark.report.papers.mics.tables import FIGURE_11, FIGURE_12, TABLE_1, TABLE_2, TABLE_3

EXPERIMENTS = [TABLE_1, FIGURE_7, FIGURE_8, FIGURE_9, FIGURE_10, FIGURE_11, FIGURE_12, TABLE_2, TABLE_3]
EXPERIMENTS += beyond.EXPERIMENTS
