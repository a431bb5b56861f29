"""`earmark warm`: compile the kernels before they are needed."""

from __future__ import annotations

import time

import click


@click.command(short_help="Compile the kernels ahead of time (a minute or two, once per machine).")
@click.option("--index", "indexes", multiple=True, metavar="NAME", help="Index to compile for. May be repeated.")
def warm(indexes: tuple[str, ...]) -> None:
    """Compile the kernels for this machine, so that no later call has to wait for them.

    Without --index, compile those of the index that `earmark match` and Matcher() use. They are kept in
    EARMARK_CACHE_DIR, or else in ~/.cache/earmark, for this user, this processor and this version of earmark and its
    libraries.

    \b
    Examples
      earmark warm
      earmark warm --index blocks --index scan
    """
    from earmark.cache import cache_folder
    from earmark.errors import EarmarkError
    from earmark.jit import JIT, note
    from earmark.language.words import counted
    from earmark.warming import warm

    if not JIT:
        raise EarmarkError("there is nothing to compile with NUMBA_DISABLE_JIT=1")
    folder = cache_folder("kernels")
    if folder is None:
        raise EarmarkError("no cache folder can be written; set EARMARK_CACHE_DIR to one that only you can write")
    before, begun = note.compiled, time.perf_counter()
    warm(indexes or None)
    took = time.perf_counter() - begun
    if compiled := note.compiled - before:
        click.echo(f"{counted(compiled, 'kernel')} compiled in {took:.0f} s and kept in {folder}", err=True)
    else:
        click.echo(f"all kernels were compiled already, in {folder}", err=True)
