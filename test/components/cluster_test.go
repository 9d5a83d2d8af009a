package components

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/test/testutil"
)

func TestCluster(t *testing.T) {
	testutil.Long(t)
	c := Start(t)
	if _, err := c.Client.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	c.APIServer.Kill(t)
	c.Etcd.Kill(t)
	c.Etcd.Start(t)
	c.AwaitEtcd(t)
	c.APIServer.Start(t)
	c.AwaitAPIServer(t)
}
