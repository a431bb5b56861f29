"""Stands for the script `earmark` where a test's shell calls it: asks `zygote.py` to run the real one.

python -S -E ask.py SOCKET SCRIPT [ARGUMENT]...
"""

import json
import os
import socket
import sys

with socket.socket(socket.AF_UNIX) as zygote:
    zygote.connect(sys.argv[1])
    request = {
        "script": sys.argv[2],
        "arguments": sys.argv[3:],
        "folder": os.getcwd(),
        "environment": dict(os.environ),
    }
    socket.send_fds(zygote, [json.dumps(request).encode() + b"\n"], [0, 1, 2])
    for descriptor in (0, 1, 2):  # a pipe ends when the run leaves it, not when this process does
        os.close(descriptor)
    code = int(zygote.recv(16))
os._exit(code if code >= 0 else 128 - code)
