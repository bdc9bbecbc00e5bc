#!/usr/bin/env python3
"""Runs a command on a terminal of its own and types into it.

usage: terminal.py STEP... -- COMMAND...

STEP is `see:TEXT`, which waits until new output shows TEXT, `type:TEXT`, with escapes such as
\\x03, or `pause:SECONDS`. Prints everything the terminal showed; exits as COMMAND did.
"""

import os
import pty
import select
import signal
import sys
import time

LIMIT = 20


def main(words):
    split = words.index("--")
    steps, command = words[:split], words[split + 1:]
    child, terminal = pty.fork()
    if child == 0:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execvp(command[0], command)
    shown, seen = b"", 0

    def read(seconds):
        nonlocal shown
        if not select.select([terminal], [], [], seconds)[0]:
            return True
        try:
            data = os.read(terminal, 65536)
        except OSError:
            return False
        shown += data
        return bool(data)

    def fail(why):
        os.kill(child, signal.SIGKILL)
        sys.exit(f"terminal: {why}; shown so far: {shown!r}")

    for step in steps:
        kind, text = step.split(":", 1)
        data = text.encode().decode("unicode_escape").encode()
        end = time.monotonic() + LIMIT
        if kind == "type":
            os.write(terminal, data)
        elif kind == "pause":
            end = time.monotonic() + float(text)
            while time.monotonic() < end:
                read(0.01)
        else:
            while data not in shown[seen:]:
                if time.monotonic() > end or not read(0.1):
                    fail(f"{text!r} did not come")
            seen = shown.index(data, seen) + len(data)
    end = time.monotonic() + LIMIT
    while read(0.1):
        if time.monotonic() > end:
            fail("no end")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sys.stdout.buffer.write(shown)
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main(sys.argv[1:])
