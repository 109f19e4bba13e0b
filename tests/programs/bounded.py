"""Run sccl several times in little memory: ``bounded.py LIST``, command lines as JSON.

It prints the exit code and stderr of each, as JSON.
"""

from __future__ import annotations

import json
import resource
import sys

from typer.testing import CliRunner

from sccl.cli.main import app, load_verb
from sccl.cli.verbs import VERBS

for verb in VERBS:
    load_verb(verb)  # loaded modules count, too
GIB, SECONDS = 2**30, 200
with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
    USED = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (USED + GIB, USED + GIB))
resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
FOUND = []
for arguments in json.loads(sys.argv[1]):
    result = CliRunner().invoke(app, arguments)
    FOUND.append((result.exit_code, result.stderr))
print(json.dumps(FOUND))
