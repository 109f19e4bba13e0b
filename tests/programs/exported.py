"""The files of each format, in hexadecimal, of algorithms whose files are read as JSON."""

from __future__ import annotations

import json
import sys

from sccl import formats
from tests.kit.formats import export_default, hexadecimal
from tests.programs.emitted import algorithm

if __name__ == "__main__":
    given = [list(map(algorithm, texts)) for texts in json.load(sys.stdin)]
    forms = map(formats.load, formats.writable_names())
    files = {form.NAME: [hexadecimal(export_default(form, one)) for one in given] for form in forms}
    sys.stdout.write(json.dumps(files))
