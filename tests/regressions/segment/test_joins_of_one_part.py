"""An AND or OR of a single part, which only objects can have, is that part; it once became an atom of its own."""

from __future__ import annotations

from earmark import Predicate
from earmark.language.normal import normal_form
from earmark.language.predicate import And, Or


def test_a_join_of_one_part_is_the_part() -> None:
    part = Predicate("a", "<", 3)
    assert normal_form(Or((And((part,)), part))) == normal_form(part | part)
    assert normal_form(And((Or((part,)),))) == normal_form(part)
