"""Modules for ``--model`` with user code that does what no model should."""

from __future__ import annotations

from dataclasses import dataclass

HEAD = """
import ctypes, os, signal, subprocess, sys, threading, time
import keras

def network(last=None):
    layers = [keras.Input((6,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(3)]
    return keras.Sequential(layers + ([last] if last is not None else []))

class Late(keras.layers.Layer):
    "NaN after some steps."
    def __init__(self, after):
        super().__init__()
        self.after = after
    def build(self, shape):
        self.count = self.add_weight(shape=(), initializer="zeros", trainable=False, name="count")
    def call(self, x):
        self.count.assign_add(1.0)
        return keras.ops.where(self.count > self.after, float("nan") * x, x)

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]

def make():
"""


@dataclass(frozen=True)
class UserCode:
    """One piece of code.

    ``then`` is done to the command after some seconds; ``measures`` is True if rounds are expected.
    """

    name: str
    body: str
    then: str = ""
    measures: bool = True


RETURN = "return network()"
FORK = "os.fork() or time.sleep(600)"
SETSID = "os.fork() or (os.setsid(), time.sleep(600))"
DAEMON = "os.fork() or (os.setsid(), os.fork() and os._exit(0), [os.close(n) for n in (0, 1, 2)], time.sleep(600))"
FLOOD = "threading.Thread(target=lambda: [os.write(2, b'z' * 4096) for _ in range(50_000)], daemon=True).start()"
DEAF = "[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; subprocess.Popen(SLEEPER)"
ESCAPES = "print('\\x1b[31mred\\x1b]0;t\\x07', file=sys.stderr); raise ValueError('\\x1b[31mbad\\nworse')"
LOCKED = "ctypes.PyDLL(None).sleep(600)"  # PyDLL keeps Python's lock
NESTED = "x = []\n    for _ in range(10_000_000): x = [x]\n    return repr(x)"

FINE: tuple[tuple[str, str], ...] = (
    ("prints", f"print('x' * 100_000); os.write(1, b'{{}}\\n' * 100); {RETURN}"),
    ("floods stderr", f"[os.write(2, b'y' * 65536) for _ in range(1500)]; {RETURN}"),
    ("floods stderr without lines, from a thread", f"{FLOOD}; {RETURN}"),
    ("forks a child", f"{FORK}; {RETURN}"),
    ("forks a child with setsid", f"{SETSID}; {RETURN}"),
    ("daemonises", f"{DAEMON}; {RETURN}"),
    ("starts a program", f"subprocess.Popen(SLEEPER, start_new_session=True); {RETURN}"),
    ("NaN late", "return network(Late(3_000))"),
    ("NaN later", "return network(Late(10_000))"),
)
"""Code with which measuring succeeds, or succeeds until the loss is NaN."""

NO_MODEL: tuple[tuple[str, str], ...] = (
    ("prints escapes", ESCAPES),
    ("exits", "sys.exit(3)"),
    ("exits at once", "os._exit(3)"),
    ("aborts", "os.abort()"),
    ("raises BaseException", "raise type('Odd', (BaseException,), {})('odd')"),
    ("raises KeyboardInterrupt", "raise KeyboardInterrupt"),
    ("recurses", "return make()"),
    ("recurses in C", NESTED),
    ("returns no model", "return 'model'"),
    ("forks, then dies", f"{FORK}\n    os._exit(1)"),
    ("forks, then is killed", f"{SETSID}\n    os.kill(os.getpid(), 9)"),
)
"""Code that is refused with one sentence that names it."""

SIGNALLED: tuple[tuple[str, str, str], ...] = (
    ("ignores signals", f"{DEAF}; {RETURN}", "interrupt"),
    ("sleeps", "time.sleep(600)", "interrupt"),
    ("sleeps with Python's lock", LOCKED, "interrupt"),
    ("loops", "while True: pass", "interrupt"),
    ("sleeps with Python's lock", LOCKED, "kill"),
    ("daemonises", f"{DAEMON}; {RETURN}", "kill"),
    ("stops itself", "os.kill(os.getpid(), signal.SIGSTOP)", "kill"),
)
CODES = (
    *(UserCode(name, body) for name, body in FINE),
    *(UserCode(name, body, measures=False) for name, body in NO_MODEL),
    *(UserCode(f"{name}, then {then}", body, then) for name, body, then in SIGNALLED),
)
