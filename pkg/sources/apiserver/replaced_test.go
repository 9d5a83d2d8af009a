package apiserver

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/podconfigd/podconfigd/test/components"
)

// A request whose dial ends after its client was replaced is made once more, with the new client.
func TestARequestThatDialsWhileTheFilesChange(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1"}`))
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	conf := components.NewKubeconfig(server.URL, nil)
	conf.AuthInfos = map[string]*clientcmdapi.AuthInfo{"user": {Token: "one"}}
	components.WriteKubeconfig(t, path, conf)
	p := NewPoster(path, "")
	defer p.Close()
	dialing, connected := make(chan struct{}, 9), make(chan struct{})
	p.connector.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		dialing <- struct{}{}
		<-connected
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := p.Post(t.Context(), "/apis/authentication.k8s.io/v1/tokenreviews", []byte(`{}`))
		failed <- err
	}()
	<-dialing
	conf.AuthInfos["user"].Token = "two" // both are good
	components.WriteKubeconfig(t, path, conf)
	_, _, _ = p.connector.get() // as another request does
	close(connected)
	if err := <-failed; err != nil {
		t.Errorf("the request failed: %v", err)
	}
}
