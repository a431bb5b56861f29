"""Ranked answers without their scores passed as right: only as many arrays were compared as both had."""

from __future__ import annotations

import numpy as np

from earmark.report.papers.be_star.contenders import difference


def test_scores_cannot_be_left_out() -> None:
    start, slots, scores = np.array([0, 1]), np.array([4], np.int32), np.array([0.5])
    assert difference((start, slots, scores), (start, slots, scores)) == ""
    assert difference((start, slots), (start, slots)) == ""
    assert difference((start, slots), (start, slots, scores)) != ""
    assert difference((start, slots, scores), (start, slots)) != ""
