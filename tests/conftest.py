"""What all tests share."""

import signal

# A shell that starts this run in the background has it ignore Ctrl-C, and so would what the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
