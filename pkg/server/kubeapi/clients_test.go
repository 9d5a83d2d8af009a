package kubeapi

import (
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// clientsets returns clients of client-go, one for JSON and one for protobuf.
func (a *api) clientsets(t *testing.T) map[string]*kubernetes.Clientset {
	t.Helper()
	clients := make(map[string]*kubernetes.Clientset)
	for _, form := range []string{jsonType, protobufType} {
		client, err := kubernetes.NewForConfig(&rest.Config{
			Host: a.url, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: form, AcceptContentTypes: form},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeIdle(t, client) })
		clients[form] = client
	}
	return clients
}

func closeIdle(t *testing.T, client *kubernetes.Clientset) {
	t.Helper()
	if c, ok := client.CoreV1().RESTClient().(*rest.RESTClient); ok {
		c.Client.CloseIdleConnections()
	}
}
