"""Python's lock (the GIL), released and taken again inside compiled code.

A kernel that Numba calls without the lock must win it back at the end, and with busy threads about that takes as long
as the interpreter leaves them, 5 ms. So a short search keeps the lock, and a long one gives it up; the caller says
which. Between the two calls nothing may raise and nothing may touch a Python object.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.cgutils import alloca_once_value, is_not_null

from earmark.jit import intrinsic


@intrinsic
def release(typing_context: Any, wanted: Any) -> Any:
    """Let go of the lock if that is wanted; returns what `reacquire` needs."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        nothing = ir.Constant(context.get_value_type(types.voidptr), None)
        state = alloca_once_value(builder, nothing)
        with builder.if_then(arguments[0]):
            builder.store(context.get_python_api(builder).save_thread(), state)
        return builder.load(state)

    return types.voidptr(types.boolean), codegen


@intrinsic
def reacquire(typing_context: Any, state: Any) -> Any:
    """Take the lock again if it was released."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        with builder.if_then(is_not_null(builder, arguments[0])):
            context.get_python_api(builder).restore_thread(arguments[0])
        return context.get_dummy_value()

    return types.void(types.voidptr), codegen
