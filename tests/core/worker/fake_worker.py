"""A worker that misbehaves on demand, for tests of the transport: ``fake_worker.py HOW``. Needs no framework."""

from __future__ import annotations

import json
import os
import sys
import time

READY = {"kind": "hello", "pid": os.getpid(), "startup_ms": 1.0, "device": "CPU:0"}


def say(reply):
    print(json.dumps(reply), flush=True)


def done(request, batch=0, **changed):
    say({"kind": "block", "batch": request["batch"] + batch, "steps": request["steps"], "block_ms": 1.0, **changed})


def bad_alloc(_request):
    print("terminate called after throwing an instance of 'std::bad_alloc'", file=sys.stderr, flush=True)
    os.abort()


def endless(_request):
    while True:
        sys.stdout.write("x" * 65536)


WAYS = {
    "garbage": lambda _: print("Segmentation imminent " * 20, flush=True),
    "wrong_kind": lambda request: say({"kind": "release", "batch": request["batch"]}),
    "wrong_batch": lambda request: done(request, batch=1),
    "nan": lambda request: done(request, block_ms=float("nan")),
    "twice": lambda request: (done(request), done(request)),
    "exit": lambda _: sys.exit("it is all too much"),
    "bad_alloc": bad_alloc,
    "endless": endless,
    "failed": lambda _: say({"kind": "failed", "outcome": "nan_loss", "reason": "The loss is nan."}),
    "hang": lambda _: time.sleep(600),
}


def main(how):
    for line in sys.stdin:
        request = json.loads(line)
        if request["kind"] == "hello":
            if how == "silent":
                time.sleep(600)
            say(READY)
        elif request["kind"] == "release":
            say({"kind": "release", "batch": request["batch"]})
        else:
            WAYS[how](request)
    if how == "deaf":
        time.sleep(600)


main(sys.argv[1])
