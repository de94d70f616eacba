"""A worker that misbehaves on demand, for tests of the transport, as the variable FAKE_WAY says. Needs no framework.

As a program it is a worker; ``fake_worker.py template`` is a template of such workers.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time


def say(reply):
    print(json.dumps(reply), flush=True)


def done(request, batch=0, **changed):
    say({"kind": "block", "batch": request["batch"] + batch, "steps": request["steps"], "block_ms": 1.0, **changed})


def bad_alloc(_request):
    print("terminate called after throwing an instance of 'std::bad_alloc'", file=sys.stderr, flush=True)
    os.abort()


def log(*lines):
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    sys.stderr.flush()


def aborted(_request):
    log("E cuda_event.cc:29] Error polling for event status: failed to query event: CUDA_ERROR_ILLEGAL_ADDRESS")
    os.abort()


NO_GPU = "There is no gpu:0: TensorFlow found no GPU, only the CPU."
NO_LIBRARIES = (
    "Cannot dlopen some GPU libraries. Please make sure the missing libraries mentioned above are installed",
    "Skipping registering GPU devices...",
)
NO_KERNELS = "not built with CUDA kernel binaries compatible with compute capability 12.0. CUDA kernels will be"


def endless(_request):
    while True:
        sys.stdout.write("x" * 65536)


def breed(_request=None):
    """Leave a child behind that holds all pipes, one in a session of its own, and one that was forked twice."""
    for sessions in (0, 1, 2):
        if os.fork() == 0:
            for _ in range(sessions):
                os.setsid()
                if os.fork() > 0:
                    os._exit(0)
            time.sleep(600)
            os._exit(0)


def flood(request):
    """Write much to stderr, without line ends and with too many; in between the reply, and more garbage than fits."""
    sys.stderr.write("x" * (1 << 25) + "y\n" * (1 << 20))
    done(request)
    sys.stdout.write("x" * (1 << 25))
    sys.stdout.flush()


def close_output(_request):
    os.close(1)
    time.sleep(600)


WAYS = {
    "garbage": lambda _: print("Segmentation imminent " * 20, flush=True),
    "wrong_kind": lambda request: say({"kind": "release", "batch": request["batch"]}),
    "wrong_batch": lambda request: done(request, batch=1),
    "nan": lambda request: done(request, block_ms=float("nan")),
    "twice": lambda request: (done(request), done(request)),
    "exit": lambda _: sys.exit("it is all too much"),
    "bad_alloc": bad_alloc,
    "suicide": lambda _: os.kill(os.getpid(), 9),
    "endless": endless,
    "failed": lambda _: say({"kind": "failed", "outcome": "nan_loss", "reason": "The loss is nan."}),
    "broken": lambda _: say({"kind": "failed", "outcome": "crashed", "reason": "The GPU failed.", "lost": True}),
    "aborted": aborted,
    "no kernels": lambda _: time.sleep(600),
    "hang": lambda _: time.sleep(600),
    "stop": lambda _: os.kill(os.getpid(), signal.SIGSTOP),
    "hold": lambda _: ctypes.PyDLL(None).sleep(600),  # does not release Python's lock
    "breed": lambda request: (breed(), done(request)),
    "breed and die": lambda _: (breed(), os.kill(os.getpid(), signal.SIGSEGV)),
    "breed and hang": lambda _: (breed(), time.sleep(600)),
    "flood": flood,
    "close": close_output,
}


def main(how):
    """Answer as a worker until stdin closes."""
    for line in sys.stdin:
        request = json.loads(line)
        if request["kind"] == "hello":
            if how == "silent":
                time.sleep(600)
            if how in ("no gpu", "no libraries"):
                log(*NO_LIBRARIES if how == "no libraries" else ("Nothing of interest.",))
                say({"kind": "failed", "outcome": "error", "reason": NO_GPU})
                continue
            if how == "no kernels":
                log(NO_KERNELS)
                time.sleep(0.2)  # TensorFlow logs this long before it is ready
            say({"kind": "hello", "pid": os.getpid(), "startup_ms": 1.0, "device": "CPU:0"})
            if how == "asleep":
                time.sleep(600)
        elif request["kind"] == "release":
            say({"kind": "release", "batch": request["batch"]})
        else:
            WAYS[how](request)
    if how == "deaf":
        time.sleep(600)


def forked(_forked_s):
    try:
        main(os.environ["FAKE_WAY"])
    except SystemExit as error:
        print(error, file=sys.stderr)
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["template"]:
        from core.worker import template

        template.main("json", forked)
    else:
        main(os.environ["FAKE_WAY"])
