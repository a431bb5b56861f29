"""What a broker remembers: torn tails are cut, everything else that is wrong is refused with a sentence."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from earmark import EarmarkError
from earmark.overlay import store as module
from earmark.overlay.messages import Prefer, Subscribe
from earmark.overlay.store import MAGIC, Forgotten, Kept, Neighbour, Preferred, Store, StoreError, Withdrawn


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests need not wait for the disk."""
    monkeypatch.setattr(module.os, "fsync", lambda descriptor: None)


def subscribe(number: int) -> Subscribe:
    return Subscribe(number, f"id {number}", f"x > {number}", {"x": 0.5}, float(number))


def filled(path: Path, count: int = 5) -> None:
    store = Store(path, "b")
    for number in range(count):
        store.append([Kept("alice", subscribe(number))])
    store.close()


def test_changes_survive(tmp_path: Path) -> None:
    path = tmp_path / "state"
    store = Store(path, "b")
    assert (store.run, store.subscriptions, store.neighbours) == (1, {}, set())
    store.append([Kept("alice", subscribe(1)), Kept("alice", subscribe(2)), Kept("bob", subscribe(1))])
    store.append([Withdrawn("alice", "id 1"), Neighbour("c"), Neighbour("d"), Preferred("bob", Prefer(4, 2, 7))])
    store.append([Preferred("carol", Prefer(5))])
    store.append([Neighbour("d", is_gone=True), Kept("carol", subscribe(3)), Forgotten("carol")])
    store.append([])
    expected = {("alice", "id 2"): subscribe(2), ("bob", "id 1"): subscribe(1)}
    assert store.subscriptions == expected and store.neighbours == {"c"}
    store.close()
    again = Store(path, "b")
    assert again.preferences == {"bob": Prefer(4, 2, 7)}
    assert (again.run, again.subscriptions, again.neighbours, again.cut) == (2, expected, {"c"}, 0)
    again.close()
    later = Store(path, "b", least=77)
    assert later.run == 77
    later.close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_torn_tail_is_cut_wherever_it_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "state"
    filled(path)
    whole = path.read_bytes()
    lengths = set()
    for end in range(0, len(whole), 3):
        path.write_bytes(whole[:end])
        store = Store(path, "b")
        assert list(store.subscriptions.values()) == [subscribe(number) for number in range(len(store.subscriptions))]
        lengths.add(len(store.subscriptions))
        store.append([Kept("bob", subscribe(9))])
        store.close()
        again = Store(path, "b")
        assert again.subscriptions["bob", "id 9"] == subscribe(9)
        again.close()
    assert lengths == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("tail", [b"\0" * 5, b"\0" * 100, b"\0\0\0\x09junk"])
def test_space_that_a_crash_left_unwritten_is_cut(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "state"
    filled(path)
    path.write_bytes(path.read_bytes() + tail)
    store = Store(path, "b")
    assert len(store.subscriptions) == 5 and store.cut == len(tail)
    store.close()


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 2**30), bit=st.integers(0, 7))
def test_a_flipped_bit_is_refused_or_cut_and_never_believed(
    tmp_path_factory: pytest.TempPathFactory, place: int, bit: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "flipped"
    path.unlink(missing_ok=True)
    filled(path)
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= 1 << bit
    path.write_bytes(data)
    try:
        store = Store(path, "b")
    except StoreError as problem:
        reason = str(problem)
    else:
        reason = ""
    if reason:
        assert reason.startswith(f"the state file {str(path)!r} is")
        return
    assert list(store.subscriptions.values()) == [subscribe(number) for number in range(len(store.subscriptions))]
    store.close()


def record(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"something else, and long enough", "is not the state of a broker of this version"),
        (b"earmark broker 2\n", "is not the state of a broker of this version"),
        (MAGIC + record(b"\x93"), "is damaged at byte 17: Input data was truncated"),
        (MAGIC + record(b"\x91\x80"), "is damaged at byte 17: .*type"),
        (MAGIC + record(b"\x80"), "is damaged at byte 17: Expected `array`, got `object`"),
        (MAGIC + record(b"\xdd\xff\xff\xff\xff"), "is damaged at byte 17"),
        (MAGIC + b"\xff\xff\xff\xff1234" + b"x" * 50, "is damaged at byte 17: expected a "),
        (MAGIC + record(b"\x91\xc0") + record(b"\x90"), "is damaged at byte 17"),
        (MAGIC + b"\0\0\0\x01abcdx" + record(b"\x90"), "is damaged at byte 17: its checksum is wrong, and it is not"),
        (
            MAGIC + record(b"\x91\x83\xa4type\xa7started\xa4name\xa1c\xa3run\x01"),
            "belongs to the broker 'c', not to 'b'",
        ),
    ],
)
def test_hostile_content_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "state"
    path.write_bytes(content)
    with pytest.raises(EarmarkError, match=f"^the state file '.*state' {reason}"):
        Store(path, "b")
    assert path.read_bytes() == content


def test_the_log_is_written_again_when_most_of_it_is_obsolete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SLACK", 50)
    path = tmp_path / "state"
    store = Store(path, "b")
    sizes = []
    for number in range(300):
        store.append([Kept("alice", subscribe(number))])
        if number >= 3:
            store.append([Withdrawn("alice", f"id {number - 3}")])
        sizes.append(path.stat().st_size)
    assert max(sizes) < 10_000 and sorted(os.listdir(tmp_path)) == ["state"]
    store.close()
    again = Store(path, "b")
    assert (again.run, list(again.subscriptions.values())) == (2, [subscribe(number) for number in (297, 298, 299)])
    again.close()


def test_a_file_is_used_by_one_broker_at_a_time(tmp_path: Path) -> None:
    store = Store(tmp_path / "state", "b")
    with pytest.raises(EarmarkError, match="is in use by another broker"):
        Store(tmp_path / "state", "b")
    store.close()
    Store(tmp_path / "state", "b").close()
    with pytest.raises(EarmarkError, match="belongs to the broker 'b', not to 'c'"):
        Store(tmp_path / "state", "c")
    with pytest.raises(EarmarkError, match="cannot be opened: "):
        Store(tmp_path / "no" / "state", "b")


def test_a_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "state", "b")

    def fail(records: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "_write", fail)
    with pytest.raises(StoreError, match="cannot be written: No space left on device"):
        store.append([Neighbour("c")])
    store.close()
