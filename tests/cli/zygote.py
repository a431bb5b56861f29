"""Runs the installed `earmark` script again and again in processes of their own, without importing it each time.

Importing and loading kernels takes seconds, mostly Numba's; a suite of some hundred runs would take many minutes.
This process does it once, and forks for each run; the child then runs the very script that a shell would. One JSON
request a line on stdin (script, arguments, folder, environment, files for output), one JSON answer a line on stdout
(the exit code).
"""

from __future__ import annotations

import json
import os
import runpy
import sys


def _child(request: dict[str, object]) -> None:
    os.setsid()
    os.chdir(str(request["folder"]))
    os.environ.update(request["environment"])  # type: ignore[arg-type]
    for descriptor, name in ((0, os.devnull), (1, request["out"]), (2, request["err"])):
        file = os.open(str(name), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, descriptor)
        os.close(file)
    sys.argv = [str(request["script"]), *request["arguments"]]  # type: ignore[misc]
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
    import earmark.cli.run  # noqa: F401
    from earmark.cli.demo import warm_up

    warm_up()  # loads the kernels, or compiles them
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _child(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(json.dumps(os.waitstatus_to_exitcode(status)), file=answers, flush=True)


main()
