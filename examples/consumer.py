import http.client
import json
import os
import signal
import socket
import sys
import time

SOCKET = os.environ.get("PODCONFIGD_SOCKET", "/run/podconfigd/podconfigd.sock")
STATE = "consumer.json"


class Connection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(SOCKET)


def load():
    try:
        with open(STATE) as file:
            return json.load(file)
    except FileNotFoundError:
        return {"pods": {}}


def save(state):
    with open(STATE + ".new", "w") as file:
        json.dump(state, file)
    os.replace(STATE + ".new", STATE)


def apply(state, update):
    """Applies one line of the stream."""
    if update.get("reset"):
        state.clear()  # also the position: if the connection ends now, all pods are needed again
        state["pods"] = {}  # the current pods follow
    for pod in update.get("pods", []):
        name = pod["metadata"]["namespace"] + "/" + pod["metadata"]["name"]
        key = update["source"] + "/" + pod["metadata"]["uid"]
        if update["op"] == "REMOVE":
            state["pods"].pop(key, None)
        else:
            state["pods"][key] = pod
        print(update["op"], name, flush=True)  # act on it here; a kill before save repeats it
    if "revision" in update:
        state["instance"], state["since"] = update["instance"], update["revision"]
        save(state)


def read(state):
    """Reads the stream until the connection ends."""
    query = ""
    if "since" in state:
        query = f"?instance={state['instance']}&since={state['since']}"
    else:
        state["pods"] = {}  # the stream starts with the current pods
    connection = Connection("localhost")
    connection.request("GET", "/v1alpha1/updates" + query)
    response = connection.getresponse()
    if response.status != 200:
        raise http.client.HTTPException(response.read().decode())
    for line in response:
        apply(state, json.loads(line))


signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it, without a traceback
state = load()
while True:
    try:
        read(state)
    except (OSError, http.client.HTTPException) as error:
        print(f"{SOCKET}: {error}; reconnecting", file=sys.stderr)
    time.sleep(1)
