"""The files of a format, in hexadecimal: of algorithms whose files are read as JSON.

Usage: python -m tests.programs.exported FORMAT
"""

from __future__ import annotations

import json
import sys

from sccl import formats
from tests.kit.formats import export_default
from tests.programs.emitted import algorithm

if __name__ == "__main__":
    form = formats.load(sys.argv[1])
    files = [
        export_default(form, list(map(algorithm, texts))).files for texts in json.load(sys.stdin)
    ]
    sys.stdout.write(json.dumps([{k: v.hex() for k, v in one.items()} for one in files]))
