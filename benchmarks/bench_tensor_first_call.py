"""What the first large call of a program costs, with no kernel kept on disk."""

import os
import subprocess
import sys

_PROGRAM = """
import time
import rushlight
{operands}
began = time.thread_time()
{call}
print(time.thread_time() - began)
"""


class FirstCall:
    params = ["product", "softmax"]
    param_names = ["operation"]
    timeout = 120
    unit = "CPU seconds"
    calls = {
        "product": ("a = rushlight.ones(1024, 1024)", "a @ a"),
        "softmax": ("a = rushlight.ones(256, 256)", "a.softmax(1)"),
    }

    def track_cold(self, operation):
        operands, call = self.calls[operation]
        program = _PROGRAM.format(operands=operands, call=call)
        environment = {**os.environ, "RUSHLIGHT_CACHE_DIR": ""}
        done = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True)
        return float(done.stdout)
