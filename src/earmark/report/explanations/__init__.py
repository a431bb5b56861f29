"""Why claims fail in the committed run: one TOML file per paper, a sentence or two for each failing claim by its id.

    light-pc = "At k = 6 the kd-tree visits {.; kd-tree; 6; nv} nodes, {ratio: .; kd-tree; 6; nv over .; .; 6; nv}."

Every measured number is a placeholder (`citations.py` has the grammar), filled from the committed results, so that
none is typed and none can be stale. `typed_numbers` finds those that are typed; a test refuses them. Excepted are
*settings*, which are not measurements: a number that the experiment's places, parameters, setting or printed numbers
have, or that the names of its panels, series and claims have; and the number of a figure or table. A number before
"×", "times" or a unit of time or memory is never a setting, nor is "twice", "half" or a number as a word before
"times".

An explanation is about the committed run alone. The report of another run has none (`run.write_report`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from importlib import resources
from typing import Any

from earmark.report.citations import PLACEHOLDER, filled_in
from earmark.report.claims import Claim, verdicts
from earmark.report.claims.words import limit_of, text_of
from earmark.report.experiment import Measurement

NUMBER = r"\d[\d,]*(?:\.\d+)?"
MEASURED = re.compile(
    rf"{NUMBER}\s*(?:×|times\b|(?:µs|ms|ns|s|seconds|minutes|MB|GB|MiB|GiB|KiB|bytes)\b)"
    r"|\b(?:twice|half|thrice)\b|\b(?:two|three|four|five|six|seven|eight|nine|ten|several) times\b",
    re.IGNORECASE,
)
"""What only a measurement says: "2.1×", "6 µs", "twice", "three times"."""
NAMED = re.compile(r"\b(?:Figure|Table)s? \d+")
"""The number of a figure or table."""


def explanations_of(paper: str) -> dict[str, str]:
    """Return why claims of a paper fail, by id; with placeholders for numbers."""
    file = resources.files(__package__) / f"{paper}.toml"
    return dict(tomllib.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}


def explained(measurements: Sequence[Measurement]) -> dict[str, str]:
    """Return why claims fail in the committed measurements, by "paper/id", with the numbers filled in."""
    texts = {}
    for measurement in measurements:
        written = explanations_of(measurement.paper)
        for verdict in verdicts(measurement):
            claim = verdict.claim
            if not verdict.holds and claim.id in written:
                texts[f"{claim.paper}/{claim.id}"] = filled_in(written[claim.id], measurements, claim)
    return texts


def typed_numbers(text: str, claim: Claim, measurement: Measurement) -> list[str]:
    """Return the numbers of an explanation that are neither placeholders nor settings of the experiment."""
    bare = NAMED.sub(" ", PLACEHOLDER.sub(" ", text))
    found = [" ".join(match[0].split()) for match in MEASURED.finditer(bare)]
    settings = _settings(claim, measurement)
    return found + [one for one in _numbers(MEASURED.sub(" ", bare)) if one not in settings]


def _settings(claim: Claim, measurement: Measurement) -> set[str]:
    """Return the numbers that say what was measured, not what came out."""
    texts = [claim.text, measurement.setting, measurement.published, measurement.differs, *measurement.notes]
    texts += [panel.name for panel in measurement.panels] + [series.name for series in measurement.series]
    texts += [text_of(x) for panel in measurement.panels for x in measurement.places(panel.name)]
    texts += [limit_of(printed.value) for printed in measurement.printed]
    texts += _flattened(measurement.parameters)
    texts.append(re.sub(r"\D+", " ", measurement.name))
    return {one for text in texts for one in _numbers(text)}


def _flattened(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for one in value.values() for text in _flattened(one)]
    if isinstance(value, (list, tuple)):
        return [text for one in value for text in _flattened(one)]
    return [f"{value:,}" if isinstance(value, (int, float)) else str(value)]


def _numbers(text: str) -> list[str]:
    """Return the numbers of a text; not those within a name, such as 3-d, w1, G_1 or BE*(5)."""
    numbers = re.findall(rf"(?<![\w.,])(?<![\w*]\()({NUMBER})(?!\w|-d\b|²|³)", text)
    return [one.rstrip(",") for one in numbers]
