package apiserver

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	nethttp "net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// The error names the file and the user of the refused credentials.
func TestCredentialsAreNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	for want, user := range map[string]*clientcmdapi.AuthInfo{
		"token file /tokens/a":                 {TokenFile: "/tokens/a"},
		"token in the kubeconfig":              {Token: "secret"},
		"password in the kubeconfig":           {Username: "me", Password: "secret"},
		"client certificate /tls.crt":          {ClientCertificate: "/tls.crt", ClientKey: "/tls.key"},
		"client certificate in the kubeconfig": {ClientCertificateData: []byte("x"), ClientKeyData: []byte("secret")},
		"command get-token":                    {Exec: &clientcmdapi.ExecConfig{Command: "get-token", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: "Never"}},
		"no credentials":                       {},
	} {
		t.Run(want, func(t *testing.T) {
			conf := components.NewKubeconfig("https://127.0.0.1:1", nil)
			conf.AuthInfos["user"] = user
			components.WriteKubeconfig(t, path, conf)
			_, got, _ := newReading().loadConfig(path) // some of the files do not exist
			if want := fmt.Sprintf("user %q of kubeconfig %s (%s)", "user", path, want); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// A server that refuses a client certificate may do so in the handshake.
func TestRefusedInTheHandshake(t *testing.T) {
	authority := components.NewAuthority(t, "another")
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.PEM)
	server := httptest.NewUnstartedServer(nethttp.NotFoundHandler())
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	for name, issue := range map[string]func(user *clientcmdapi.AuthInfo){
		"none": func(*clientcmdapi.AuthInfo) {},
		"another's": func(user *clientcmdapi.AuthInfo) {
			user.ClientCertificateData, user.ClientKeyData = components.NewAuthority(t, "third").Issue(t, "me")
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "kubeconfig")
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			conf := components.NewKubeconfig(server.URL, ca)
			issue(conf.AuthInfos["user"])
			components.WriteKubeconfig(t, path, conf)
			c := newConnector(path, "")
			t.Cleanup(c.close)
			client, _, err := c.get()
			if err != nil {
				t.Fatal(err)
			}
			err = client.refused(client.rest.Get().Resource("pods").Do(t.Context()).Error())
			want := fmt.Sprintf("the apiserver refused the credentials of user %q of kubeconfig %s (", "user", path)
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("certificate %s: got %v, want %s…", name, err, want)
			}
		})
	}
}

// A FIFO in the place of a kubeconfig, or of a file that it names, neither blocks the source
// nor its end.
func TestCredentialsAreInRegularFiles(t *testing.T) {
	dir := t.TempDir()
	fifo, path := filepath.Join(dir, "fifo"), filepath.Join(dir, "kubeconfig")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*clientcmdapi.Config){
		"CA":    func(conf *clientcmdapi.Config) { conf.Clusters["cluster"].CertificateAuthority = "fifo" },
		"token": func(conf *clientcmdapi.Config) { conf.AuthInfos["user"].TokenFile = "fifo" },
		"certificate": func(conf *clientcmdapi.Config) {
			conf.AuthInfos["user"].ClientCertificate, conf.AuthInfos["user"].ClientKey = "fifo", "fifo"
		},
	} {
		t.Run(name, func(t *testing.T) {
			conf := components.NewKubeconfig("https://127.0.0.1:1", nil)
			conf.AuthInfos["user"] = &clientcmdapi.AuthInfo{}
			change(conf)
			components.WriteKubeconfig(t, path, conf)
			if _, err := (&connector{kubeconfig: path}).makeClient(); err == nil || !strings.Contains(err.Error(), fifo+": expected a regular file") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	if _, err := (&connector{kubeconfig: fifo}).makeClient(); err == nil || !strings.Contains(err.Error(), "expected a regular file") {
		t.Errorf("kubeconfig: %v", err)
	}
}

// The certificate of the CA may be being written. Without one, the CAs of the system would count.
func TestAnEmptyFileOfTheCA(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	ca := filepath.Join(filepath.Dir(path), "ca.crt")
	testutil.WriteFile(t, ca, "")
	conf := components.NewKubeconfig("https://127.0.0.1:1", nil)
	conf.Clusters["cluster"].CertificateAuthority = ca
	components.WriteKubeconfig(t, path, conf)
	if _, err := (&connector{kubeconfig: path}).makeClient(); err == nil || !strings.Contains(err.Error(), ca+": the file is empty") {
		t.Error(err)
	}
}
