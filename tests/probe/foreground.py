#!/usr/bin/env python3
"""Runs a command as the foreground job of a terminal, as a shell does, and restores nothing.

Prints `ended STATUS` and `job GROUP` when the job has ended, and stays, so that the terminal can be looked at.
"""

import os
import signal
import sys


def main(words):
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpgrp())
        for number in (signal.SIGTTOU, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(words[0], words)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = status if status >= 0 else 128 - status
    print(f"ended {status}\r\njob {child}", end="\r\n", flush=True)
    signal.pause()


if __name__ == "__main__":
    main(sys.argv[1:])
