#!/usr/bin/env python3
"""Keeps the current pods of podconfigd, with only the Python standard library.

It prints a line for each pod that is added, changed or removed. After a lost connection,
it reconnects and resumes the stream.

    examples/follow.py [query, for example 'namespace=kube-system&mirrorPods=false']
"""

import http.client
import json
import os
import signal
import socket
import sys
import time
import urllib.parse

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
    """The daemon refused the request. A retry would fail too."""


class TooMany(http.client.HTTPException):
    """The daemon has too many subscribers. A later retry can succeed."""


class Pods:
    """The current pods, by source and UID."""

    def __init__(self, query=""):
        self.query = query
        self.snapshots = urllib.parse.parse_qs(query).get("mode", ["incremental"])[0] != "incremental"
        self.pods = {}
        self.set = {}  # the pods of a SET that continues
        # To resume, pass the instance and revision of the last line with a revision.
        self.instance, self.since = "", 0
        self.opened = False  # the daemon has accepted the request once

    def read(self):
        """Reads the stream until the connection ends."""
        query = self.query
        if self.since:
            query += f"&instance={self.instance}&since={self.since}"
        else:
            self.pods.clear()  # the stream starts with all pods
        self.set.clear()
        connection = Connection(SOCKET)
        try:
            connection.request("GET", "/v1alpha1/updates?" + query.lstrip("&"))
            response = connection.getresponse()
            if response.status != 200:
                message = json.load(response)["message"]
                # Retry on 429 only if the stream was open before.
                raise (TooMany if response.status == 429 and self.opened else Refused)(message)
            self.opened = True
            for line in response:
                self.take(json.loads(line))
        finally:
            connection.close()

    def take(self, update):
        """Applies one line of the stream."""
        if update.get("reset"):
            print("RESET: forget every pod", flush=True)
            self.pods.clear()
            self.set.clear()  # a SET that has begun is void
            self.instance, self.since = "", 0  # if the connection ends now, all pods are needed again
        op = update["op"]
        for pod in update.get("pods", []):
            meta = pod["metadata"]
            print(f"{op}\t{meta['namespace']}/{meta['name']}", flush=True)
            # Two sources can have a pod of the same UID. In the snapshot modes, the source of a pod is not
            # known. Its annotation has only the kind of the source.
            source = update.get("source")
            if self.snapshots:
                source = meta.get("annotations", {}).get("kubernetes.io/config.source")
            key = source, meta["uid"]
            if op == "REMOVE":
                self.pods.pop(key, None)
            elif op == "SET":
                self.set[key] = pod
            elif op in ("ADD", "UPDATE", "DELETE", "RECONCILE"):
                self.pods[key] = pod
        if op == "SET" and not update.get("continues"):
            self.pods, self.set = self.set, {}  # a SET has all pods
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
        print(f"connection lost, {len(pods.pods)} pods known; reconnecting", file=sys.stderr)
        time.sleep(1)


if __name__ == "__main__":
    # Exit without a traceback on a closed pipe or Ctrl-C.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    main()
