"""Lists and watches the pods with the Python client, and prints all of them after each change."""
import json
import sys
import time

import urllib3
from kubernetes import client, config, watch

config.load_kube_config("/etc/podconfigd/kubeconfig")
api = client.CoreV1Api()


def show(pods):
    print(json.dumps([{
        "Namespace": pod.metadata.namespace,
        "Name": pod.metadata.name,
        "UID": pod.metadata.uid,
        "Node": pod.spec.node_name,
        "Phase": pod.status.phase,
        "IP": pod.status.pod_ip or "",
        "Version": pod.metadata.labels["version"],
        "Containers": {c.name: c.container_id or "" for c in pod.status.container_statuses or []},
    } for pod in pods.values()]), flush=True)


def follow():
    found = api.list_pod_for_all_namespaces()
    pods = {(pod.metadata.namespace, pod.metadata.name): pod for pod in found.items}
    show(pods)
    events = watch.Watch().stream(api.list_pod_for_all_namespaces, resource_version=found.metadata.resource_version)
    for event in events:
        pod = event["object"]
        name = (pod.metadata.namespace, pod.metadata.name)
        if event["type"] == "DELETED":
            pods.pop(name, None)
        else:
            pods[name] = pod
        show(pods)


while True:
    try:
        follow()
    except (client.ApiException, urllib3.exceptions.HTTPError) as err:
        print(err, file=sys.stderr)
        time.sleep(0.2)
