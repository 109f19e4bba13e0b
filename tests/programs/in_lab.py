"""A lab by a mechanism that the caller selects: two ranks that run until they are ended."""

from __future__ import annotations

import json
import signal
import sys
from unittest import mock

from benchmarks.lab import LabMethod, Limiter
from benchmarks.lab.__main__ import main

if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the test runner's parent may ignore it
    unshare, limiter, command = json.loads(sys.argv[1])
    found = LabMethod(Limiter(limiter), tuple(unshare))
    sys.argv[1:] = ["--ranks", "2", "--", *command]
    with mock.patch("benchmarks.lab.__main__.choose_method", return_value=found):
        main()
