"""``sccl train lab`` by a way that its caller names: two ranks that go on until they are ended."""

from __future__ import annotations

import json
import signal
import sys
from unittest import mock

from sccl.__main__ import main
from sccl.runtime.lab import LabMethod, Limiter

if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the test runner's parent may ignore it
    unshare, limiter, command = json.loads(sys.argv[1])
    found = LabMethod(Limiter(limiter), tuple(unshare))
    sys.argv[1:] = ["train", "lab", "--ranks", "2", "--", *command]
    with mock.patch("sccl.cli.lab.choose_method", return_value=found):
        main()
