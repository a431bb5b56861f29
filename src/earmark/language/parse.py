"""From SQL text to a condition.

sqlglot (Spark dialect) is the grammar; it is not the validator, and it never sees a name or a literal:

    text       age >= 22.5 AND city IN ('x', 'it''s')
    shape      n0 >= 900000000 AND n1 IN (800000001)      every token checked, names and literals out (tokens.py)
    tree       sqlglot's, walked by a whitelist of nodes *and their arguments* (grammar.py)
    template   our clauses with holes for the literals; kept, so that a text of a known shape needs no grammar, and one
               that differs in its names as well needs tokens only
    clauses    the template with the literals of this text

Literals are read by literals.py under Spark's rules. Length, nesting and the numbers of clauses and of values in them
are bounded.
Threads may parse at the same time: a template never changes, and new ones are put in place under a lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from earmark.errors import SubscriptionError
from earmark.language.literals import LiteralError, negated, number_value, plain_pattern, string_value
from earmark.language.normal import MAX_VALUES, Clauses, normal_form, too_many_values
from earmark.language.predicate import MAX_NAME, MAX_TEXT, Atom, Condition, Leaf, Mode, Predicate, filled
from earmark.language.refusals import refusal
from earmark.language.tokens import KINDS, QUOTED, UNIT, Hole, Kind, Lexed, lex, units_are_slots
from earmark.locks import remade_lock

Compared: TypeAlias = tuple[str, str, tuple[int, ...]]
"""An attribute, an operator, and the places of the literals that it is compared with."""
Form: TypeAlias = tuple[str, tuple[str, ...], tuple[int, ...]]
"""A shape, the kinds of its literals, and which of its names are equal: for each the place of the first like it."""
COMPARISONS = frozenset(("=", "<", "<=", ">", ">=", "BETWEEN"))
_MAX_TEMPLATES = 4096
_SURE_DIGITS = 15
"""A whole number of so many digits is a double, exactly."""
_MAX_TEMPLATE_LEAVES = 256
_MAX_TEMPLATE_TEXT = 4096


def parse(text: str) -> Condition:
    """The condition that a string means, or a SubscriptionError.

    >>> print(parse("NOT (age < 22 OR city IN ('x', 'it''s'))"))
    NOT (age < 22 OR city IN ('x', 'it''s'))
    """
    try:
        lexed = lex(text)
        tree = _condition(lexed)
        tokens = [text[slot.start : slot.end] for slot in lexed.slots]
        literals = _literals([KINDS[slot.kind] for slot in lexed.slots], tokens)
        assert literals is not None, "tokens are of the kinds of their slots"
        return filled(tree, lambda value: _filled(value, literals))
    except (SubscriptionError, _BadLiteral) as problem:
        raise _error(text, problem) from None


def parse_clauses(text: str) -> Clauses:
    """The clauses of a condition's text; a known shape skips the grammar."""
    try:
        between: tuple[str, ...] = ()
        if isinstance(text, str) and len(text) <= MAX_TEXT:
            between, tokens = split_units(text)
            template = _templates.get(between)
            if template is not None and (clauses := template.clauses_with(tokens)) is not None:
                return clauses
        lexed = lex(text)
        template = _template_of(lexed)
        if units_are_slots(lexed):
            _keep(between, template)
        clauses = template.clauses_with([text[slot.start : slot.end] for slot in lexed.slots])
        assert clauses is not None, "a template takes the literals it was made from"
        return clauses
    except (SubscriptionError, _BadLiteral) as problem:
        raise _error(text, problem) from None


def _template_of(lexed: Lexed) -> Template:
    """The template of a text; without the grammar where one that differs in its names and literals alone is known."""
    form = _form_of(lexed)
    known = None if form is None else _forms.get(form)
    if known is not None:
        template, names = known
        return template.renamed(dict(zip(names, lexed.names, strict=True)))
    template = Template(lexed, normal_form(_condition(lexed)))
    if form is not None and template.size <= _MAX_TEMPLATE_LEAVES and len(lexed.shape) <= _MAX_TEMPLATE_TEXT:
        _remember(_forms, form, (template, lexed.names))
    return template


def _form_of(lexed: Lexed) -> Form | None:
    """What a text is but for its names and literals; None where a name is not a plain one."""
    names = lexed.names
    if "." in lexed.kinds or not all(name.isascii() and "." not in name and len(name) <= MAX_NAME for name in names):
        return None
    return lexed.shape, tuple([slot.kind for slot in lexed.slots]), tuple(map(names.index, names))


def _condition(lexed: Lexed) -> Condition:
    """The condition of a text with its literals taken out."""
    from earmark.language.grammar import Grammar  # with sqlglot, which takes long to import

    return Grammar(lexed).condition()


class _BadLiteral(Exception):
    """The literal with this number cannot be read."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index
        self.reason = reason


def _error(text: Any, problem: SubscriptionError | _BadLiteral) -> SubscriptionError:
    if isinstance(problem, _BadLiteral):  # a text of known shape has been read without regard to places
        slot = lex(text).slots[problem.index]
        problem = refusal(problem.reason, text[slot.start : slot.end], slot.start, slot.end)
    return problem.at(condition=text) if isinstance(text, str) else problem


def split_units(text: str) -> tuple[tuple[str, ...], list[str]]:
    """What is between the units of a text (with its names in backticks), and the literals."""
    parts = UNIT.split(text)
    units = parts[1::2]
    if units and not parts[-1] and units[-1][0] in "'\"`" and not QUOTED.fullmatch(units[-1]):
        return (), []  # a quote is not closed: no known shape
    if "`" not in text:
        return tuple(parts[::2]), units
    between = (*parts[::2], *[unit if unit[0] == "`" else "" for unit in units])
    return between, [unit for unit in units if unit[0] != "`"]


def known_template(between: tuple[str, ...]) -> Template | None:
    """The template of texts with this between their units, if there is one."""
    return _templates.get(between)


def compared(text: str) -> tuple[Template, list[int]] | None:
    """The template and the literals of a text that only compares attributes with whole numbers; None for any other.

    None as well where no text of its shape was parsed before.
    """
    if len(text) > MAX_TEXT:
        return None
    between, tokens = split_units(text)
    template = _templates.get(between)
    if template is None or template.comparisons is None or len(max(tokens, key=len)) > _SURE_DIGITS:
        return None
    digits = "".join(tokens)
    return (template, list(map(int, tokens))) if digits.isdigit() and digits.isascii() else None


# --- templates -----------------------------------------------------------------------------------------------

_templates: dict[tuple[str, ...], Template] = {}
_forms: dict[Form, tuple[Template, list[str]]] = {}
"""By what is left without names, a template and its names."""
_templates_lock = remade_lock()


def _keep(between: tuple[str, ...], template: Template) -> None:
    """Remember the template of a shape; the oldest gives way."""
    if template.size <= _MAX_TEMPLATE_LEAVES and sum(map(len, between)) <= _MAX_TEMPLATE_TEXT:
        _remember(_templates, between, template)


def _remember(templates: dict[Any, Any], key: Any, value: Any) -> None:
    with _templates_lock:
        while len(templates) >= _MAX_TEMPLATES:
            del templates[next(iter(templates))]
        templates[key] = value


class Template:
    """Clauses with holes, compiled flat: literals -> values -> leaves -> clauses, each from those before it."""

    __slots__ = ("_values", "clauses", "comparisons", "derived", "kinds", "leaves", "repeats", "size")

    def __init__(self, lexed: Lexed, clauses: Clauses) -> None:
        self.kinds = [KINDS[slot.kind] for slot in lexed.slots]
        self.derived: list[Any] = []  # values beyond the literals: constants, dates, negated numbers
        self.leaves: list[tuple[str, str, tuple[int, ...], Mode]] = []
        self.repeats: list[int] = []  # in how many clauses a leaf is, counted with its repetitions in one
        numbers: dict[int, int] = {}
        self.clauses = [
            [(name, [self._compiled(atom, numbers) for atom in atoms]) for name, atoms in clause] for clause in clauses
        ]
        self._values = sum(n * max(1, len(leaf[2])) for n, leaf in zip(self.repeats, self.leaves, strict=True))
        self.size = len(self.leaves) + sum(len(atoms) for clause in self.clauses for _, atoms in clause)
        self.comparisons = self._comparisons()

    def renamed(self, names: Mapping[str, str]) -> Template:
        """The same with other names for the attributes, as many as before."""
        made = object.__new__(Template)
        made.kinds, made.derived, made.repeats = self.kinds, self.derived, self.repeats
        made._values, made.size = self._values, self.size
        made.leaves = [(names[name], operator, places, mode) for name, operator, places, mode in self.leaves]
        made.clauses = [[(names[name], atoms) for name, atoms in clause] for clause in self.clauses]
        made.comparisons = made._comparisons()
        return made

    def _comparisons(self) -> list[list[Compared]] | None:
        """The clauses as comparisons with numbers; None unless each constraint is one."""
        listed = [(name, atoms) for clause in self.clauses for name, atoms in clause]
        if self.derived or not self.kinds or any(kind is not KINDS["number"] for kind in self.kinds):
            return None
        if not all(len(atoms) == 1 and type(atoms[0]) is int for _, atoms in listed):
            return None
        if not all(operator in COMPARISONS and mode is Mode.TRUE for _, operator, _, mode in self.leaves):
            return None
        return [[self.leaves[atoms[0]][:3] for _, atoms in clause] for clause in self.clauses]

    def _compiled(self, atom: Atom, numbers: dict[int, int]) -> Any:
        """A leaf as its number, others as (AnyOf or AllOf, parts)."""
        if not isinstance(atom, Leaf):
            return type(atom), [self._compiled(part, numbers) for part in atom.parts]
        if id(atom) not in numbers:  # a leaf may be in many clauses, but is one object
            numbers[id(atom)] = len(self.leaves)
            predicate = atom.predicate
            values = tuple([self._place(value) for value in predicate.values])
            self.leaves.append((predicate.attribute, predicate.operator, values, atom.mode))
            self.repeats.append(0)
        self.repeats[numbers[id(atom)]] += 1
        return numbers[id(atom)]

    def _place(self, value: Any) -> int:
        if isinstance(value, Hole) and value.form == "value":
            return value.index
        self.derived.append(value)
        return len(self.kinds) + len(self.derived) - 1

    def clauses_with(self, tokens: list[str]) -> Clauses | None:
        """The clauses with these literals; None when one is of another kind than the template's."""
        values = _literals(self.kinds, tokens)
        if values is None:
            return None
        if self.derived:
            values += [_filled(value, values) for value in self.derived]
        leaves: list[Leaf] = []
        count = self._values
        for attribute, operator, places, mode in self.leaves:
            if len(places) == 1:
                value = values[places[0]]
                if type(value) is tuple:
                    count += self.repeats[len(leaves)] * (len(value) - 1)
                leaves.append(leaf_of(attribute, operator, value if type(value) is tuple else (value,), mode))
            else:
                leaves.append(leaf_of(attribute, operator, tuple([values[p] for p in places]), mode))
        if count > MAX_VALUES:  # of plain lists only their places were known when the clauses were made
            raise too_many_values()
        return tuple([tuple([(name, _made(atoms, leaves)) for name, atoms in clause]) for clause in self.clauses])


_set_attribute, _set_operator, _set_values = (Predicate.__dict__[name].__set__ for name in Predicate.__slots__)
_set_predicate, _set_mode = (Leaf.__dict__[name].__set__ for name in Leaf.__slots__)


def leaf_of(attribute: str, operator: str, values: tuple[Any, ...], mode: Mode) -> Leaf:
    """A Leaf of a Predicate whose parts are known to be right; there are millions, so it skips `__init__`."""
    predicate, leaf = object.__new__(Predicate), object.__new__(Leaf)
    _set_attribute(predicate, attribute)
    _set_operator(predicate, operator)
    _set_values(predicate, values)
    _set_predicate(leaf, predicate)
    _set_mode(leaf, mode)
    return leaf


def _literals(kinds: list[Kind], tokens: list[str]) -> list[Any] | None:
    """The values of literals; None when one is not of its kind."""
    values: list[Any] = []
    try:
        for (openings, read), token in zip(kinds, tokens, strict=True):
            if token[0] not in openings:
                return None
            if read is number_value and len(token) <= 18 and token.isdigit():
                values.append(int(token))
            elif read is string_value and token.isascii() and "\\" not in token and token.count(token[0]) == 2:
                values.append(token[1:-1])
            else:
                values.append(read(token))
    except LiteralError as problem:
        raise _BadLiteral(len(values), problem.reason) from None
    return values


def _made(atoms: list[Any], leaves: list[Leaf]) -> tuple[Atom, ...]:
    """Atoms from leaf numbers and (AnyOf or AllOf, parts)."""
    if len(atoms) == 1 and type(atoms[0]) is int:
        return (leaves[atoms[0]],)
    return tuple([leaves[a] if type(a) is int else a[0](_made(a[1], leaves)) for a in atoms])


def _filled(value: Any, literals: list[Any]) -> Any:
    """The value of a hole (a plain list is a tuple) or constant."""
    if not isinstance(value, Hole):
        return value
    try:
        return value_of(value, literals)
    except LiteralError as problem:
        raise _BadLiteral(value.index, problem.reason) from None


def value_of(hole: Hole, literals: list[Any]) -> Any:
    """What a hole holds, given the literals of the text; may raise LiteralError."""
    literal = literals[hole.index]
    if hole.form == "negative":
        return negated(literal)
    return plain_pattern(literal, literals[hole.escape]) if hole.form == "escaped" else literal
