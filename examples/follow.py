#!/usr/bin/env python3
"""Keeps the present pods of podconfigd, with nothing but Python's standard library.

It prints a line for each pod that comes, changes or goes, and takes a lost connection
up again where it was lost.

    examples/follow.py [query, as in 'namespace=kube-system&mirrorPods=false']
"""

import http.client
import json
import os
import signal
import socket
import sys
import time

SOCKET = os.environ.get("PODCONFIGD_SOCKET", "/run/podconfigd/podconfigd.sock")


class Connection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class Refused(Exception):
    """The daemon won't do what was asked: to ask again is of no use."""


class TooMany(http.client.HTTPException):
    """The daemon has no place for another reader at the moment."""


class Pods:
    """The present pods, by source and UID."""

    def __init__(self, query=""):
        self.query = query
        self.pods = {}
        # What to resume from: those of the last line that had a revision.
        self.instance, self.since = "", 0

    def read(self):
        """Follows the stream until the connection ends."""
        query = self.query
        if self.since:
            query += f"&instance={self.instance}&since={self.since}"
        else:
            self.pods.clear()  # it begins with all of them
        connection = Connection(SOCKET)
        try:
            connection.request("GET", "/v1alpha1/updates?" + query.lstrip("&"))
            response = connection.getresponse()
            if response.status != 200:
                message = json.load(response)["message"]
                # All places are taken: who had one waits until there is one again.
                raise (TooMany if response.status == 429 and self.since else Refused)(message)
            for line in response:
                self.take(json.loads(line))
        finally:
            connection.close()

    def take(self, update):
        """Takes one line over."""
        if update.get("reset"):
            print("RESET: forget every pod", flush=True)
            self.pods.clear()
        for pod in update.get("pods", []):
            key = update["source"], pod["metadata"]["uid"]
            if update["op"] == "REMOVE":
                self.pods.pop(key, None)
            else:
                self.pods[key] = pod
            print(f"{update['op']}\t{pod['metadata']['namespace']}/{pod['metadata']['name']}", flush=True)
        if "revision" in update:
            self.instance, self.since = update["instance"], update["revision"]


def main():
    pods = Pods(*sys.argv[1:2])
    while True:
        try:
            pods.read()
        except (Refused, http.client.InvalidURL) as refusal:
            sys.exit(f"podconfigd: {refusal}")
        except (OSError, http.client.HTTPException) as error:
            print(f"{SOCKET}: {error}", file=sys.stderr)
        print(f"the connection was lost with {len(pods.pods)} pods; trying again", file=sys.stderr)
        time.sleep(1)


if __name__ == "__main__":
    # End as other programs do where nobody reads any more, or at Ctrl-C.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    main()
