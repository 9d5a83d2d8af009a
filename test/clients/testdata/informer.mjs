// Keeps the pods with an informer of @kubernetes/client-node, and prints all of them after
// each change.
import * as k8s from '@kubernetes/client-node';

const config = new k8s.KubeConfig();
config.loadFromFile('/etc/podconfigd/kubeconfig');
const api = config.makeApiClient(k8s.CoreV1Api);
const informer = k8s.makeInformer(config, '/api/v1/pods', () => api.listPodForAllNamespaces());

function print() {
  console.log(JSON.stringify(informer.list().map((pod) => ({
    Namespace: pod.metadata.namespace,
    Name: pod.metadata.name,
    UID: pod.metadata.uid,
    Node: pod.spec.nodeName,
    Phase: pod.status.phase,
    IP: pod.status.podIP ?? '',
    Version: pod.metadata.labels.version,
    Containers: Object.fromEntries((pod.status.containerStatuses ?? []).map((c) => [c.name, c.containerID ?? ''])),
  }))));
}

for (const event of ['add', 'update', 'delete']) informer.on(event, print);
informer.on('error', (err) => {
  console.error(String(err));
  setTimeout(() => informer.start(), 200);
});
informer.start().then(print, (err) => informer.emit?.('error', err));
