"""Runs the installed `earmark` script again and again in processes of their own, without importing it each time.

Importing and loading kernels takes seconds, mostly Numba's; a suite of some hundred runs would take many minutes.
This process does it once, and forks for each run; the child then runs the very script that a shell would, with the
arguments, folder, environment and open files of whoever asked. It listens on the socket named by its argument.
`ask.py` asks, in place of the script.
"""

from __future__ import annotations

import json
import os
import runpy
import socket
import sys
from typing import Any


def _child(request: dict[str, Any], files: list[int]) -> None:
    os.setsid()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for descriptor, file in enumerate(files):
        os.dup2(file, descriptor)
        os.close(file)
    sys.argv = [request["script"], *request["arguments"]]
    code: object = 0
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 99
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0)


def main() -> None:
    import earmark.cli.search  # noqa: F401
    from earmark.matcher import DEFAULT_INDEX
    from earmark.warming import warm_search

    warm_search(DEFAULT_INDEX)  # loads the kernels, or compiles them
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(sys.argv[1])
        server.listen()
        print("ready", flush=True)
        while True:
            with server.accept()[0] as asker:
                line, files, _, _ = socket.recv_fds(asker, 1 << 20, 3)
                while not line.endswith(b"\n"):
                    line += asker.recv(1 << 20)
                child = os.fork()
                if child == 0:
                    _child(json.loads(line), files)
                for file in files:
                    os.close(file)
                _, status = os.waitpid(child, 0)
                asker.sendall(b"%d" % os.waitstatus_to_exitcode(status))


main()
