package components

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// User is the user with the rights that podconfigd needs. Nobody is a user without
// rights.
const (
	User   = "podconfigd"
	Nobody = "nobody"
)

// Admission are flags of an apiserver that has the admission plugins of a real cluster for pods
// of nodes: NodeRestriction and ServiceAccount. Without them, no plugin needs service accounts,
// which a controller manager creates.
var Admission = []string{"--enable-admission-plugins=NodeRestriction", disabledPlugins}

// disabledPlugins is a flag that disables no admission plugin.
const disabledPlugins = "--disable-admission-plugins="

// readyIn is the maximum time until a server is ready, or a container has exited.
const readyIn = testutil.Patience

// Cluster is an etcd and a kube-apiserver.
type Cluster struct {
	Etcd, APIServer *Process
	// Address is the apiserver's host and port.
	Address string
	// Authority signed the apiserver's certificate. The apiserver accepts client
	// certificates that it signed.
	Authority *Authority
	// Client has all rights.
	Client kubernetes.Interface

	dir      string
	etcdURL  string
	apiFlags []string
	roles    []string // of deploy/kubernetes
}

// Start runs a cluster until the test ends. The flags are additional flags of the
// apiserver.
func Start(tb testing.TB, apiFlags ...string) *Cluster {
	tb.Helper()
	dir := testutil.ShortDir(tb)
	peers := "http://" + FreeAddress(tb)
	c := &Cluster{
		Address: FreeAddress(tb), Authority: NewAuthority(tb, "test"),
		dir: dir, etcdURL: "http://" + FreeAddress(tb), apiFlags: apiFlags,
	}
	c.Etcd = start(tb, dir, "etcd", "--data-dir="+c.data(), "--unsafe-no-fsync",
		"--listen-client-urls="+c.etcdURL, "--advertise-client-urls="+c.etcdURL,
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers,
		"--initial-cluster=default="+peers)
	c.AwaitEtcd(tb)
	c.APIServer = c.StartAPIServer(tb, c.Address)
	c.Client = c.clientFor(tb, c.Kubeconfig(tb, filepath.Join(dir, "admin.conf"), "admin", "system:masters"))
	c.AwaitAPIServer(tb)
	c.grant(tb)
	return c
}

// StartAPIServer runs another apiserver on the same etcd, at the address, with further flags.
func (c *Cluster) StartAPIServer(tb testing.TB, address string, flags ...string) *Process {
	tb.Helper()
	dir := filepath.Join(c.dir, strings.ReplaceAll(address, ":", "-"))
	if err := os.Mkdir(dir, 0o700); err != nil {
		tb.Fatal(err)
	}
	cert, key := c.Authority.Issue(tb, "kube-apiserver")
	certFile := writeFile(tb, filepath.Join(dir, "tls.crt"), cert)
	keyFile := writeFile(tb, filepath.Join(dir, "tls.key"), key)
	caFile := writeFile(tb, filepath.Join(c.dir, "ca.crt"), c.Authority.PEM)
	accounts := filepath.Join(c.dir, "service-accounts.key")
	if _, err := os.Stat(accounts); err != nil {
		writeFile(tb, accounts, keyPEM(tb, newKey(tb)))
	}
	tokens := writeFile(tb, filepath.Join(c.dir, "tokens.csv"), []byte(User+"-token,"+User+",1\n"+Nobody+"-token,"+Nobody+",2\n"))
	disabled := disabledPlugins
	if !slices.Contains(c.apiFlags, disabled) {
		disabled += "ServiceAccount"
	}
	port := address[strings.LastIndexByte(address, ':')+1:]
	return start(tb, dir, "kube-apiserver", append([]string{
		"--etcd-servers=" + c.etcdURL, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + port,
		"--endpoint-reconciler-type=none", disabled,
		"--tls-cert-file=" + certFile, "--tls-private-key-file=" + keyFile, "--client-ca-file=" + caFile,
		"--token-auth-file=" + tokens, "--authorization-mode=Node,RBAC", "--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + accounts, "--service-account-signing-key-file=" + accounts,
		"--shutdown-delay-duration=0s",
	}, slices.Concat(c.apiFlags, flags)...)...)
}

// AwaitEtcd returns when etcd is healthy.
func (c *Cluster) AwaitEtcd(tb testing.TB) {
	tb.Helper()
	await(tb, "etcd", func() error {
		resp, err := http.Get(c.etcdURL + "/health")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("it answers %s", resp.Status)
		}
		return nil
	})
	http.DefaultClient.CloseIdleConnections()
}

// AwaitAPIServer returns when the apiserver is ready.
func (c *Cluster) AwaitAPIServer(tb testing.TB) {
	tb.Helper()
	await(tb, "kube-apiserver", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), readyIn)
		defer cancel()
		return c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// Kubeconfig writes a kubeconfig with its own client certificate, and returns its path.
func (c *Cluster) Kubeconfig(tb testing.TB, path, user string, groups ...string) string {
	tb.Helper()
	conf := NewKubeconfig("https://"+c.Address, c.Authority.PEM)
	conf.AuthInfos["user"].ClientCertificateData, conf.AuthInfos["user"].ClientKeyData = c.Authority.Issue(tb, user, groups...)
	WriteKubeconfig(tb, path, conf)
	return path
}

// TokenKubeconfig writes a kubeconfig with the token of User or Nobody.
func (c *Cluster) TokenKubeconfig(tb testing.TB, path, user string) string {
	tb.Helper()
	conf := NewKubeconfig("https://"+c.Address, c.Authority.PEM)
	conf.AuthInfos["user"].Token = user + "-token"
	WriteKubeconfig(tb, path, conf)
	return path
}

// Config is a kubeconfig.
type Config = clientcmdapi.Config

// NewKubeconfig returns a kubeconfig whose user "user" has no credentials.
func NewKubeconfig(server string, ca []byte) *Config {
	return &Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"cluster": {Server: server, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"user": {}},
		Contexts:       map[string]*clientcmdapi.Context{"context": {Cluster: "cluster", AuthInfo: "user"}},
		CurrentContext: "context",
	}
}

// WriteKubeconfig writes a kubeconfig in one step.
func WriteKubeconfig(tb testing.TB, path string, conf *Config) {
	tb.Helper()
	data, err := clientcmd.Write(*conf)
	if err != nil {
		tb.Fatal(err)
	}
	writeFile(tb, path+".new", data)
	if err := os.Rename(path+".new", path); err != nil {
		tb.Fatal(err)
	}
}

// grant creates the roles of deploy/kubernetes and of its components, and gives them to User.
func (c *Cluster) grant(tb testing.TB) {
	tb.Helper()
	for _, path := range roleFiles(tb) {
		data, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		for document := range strings.SplitSeq(string(data), "\n---\n") {
			var role rbacv1.ClusterRole
			var binding rbacv1.ClusterRoleBinding
			if err := errors.Join(yaml.Unmarshal([]byte(document), &role), yaml.Unmarshal([]byte(document), &binding)); err != nil {
				tb.Fatal(err)
			}
			var err error
			switch role.Kind {
			case "ClusterRole":
				_, err = c.Client.RbacV1().ClusterRoles().Create(tb.Context(), &role, metav1.CreateOptions{})
			case "ClusterRoleBinding":
				_, err = c.Client.RbacV1().ClusterRoleBindings().Create(tb.Context(), &binding, metav1.CreateOptions{})
				c.roles = append(c.roles, binding.RoleRef.Name)
			}
			if err != nil {
				tb.Fatal(err)
			}
		}
	}
	c.Bind(tb, User)
}

// roleFiles are the files of deploy/kubernetes with roles.
func roleFiles(tb testing.TB) []string {
	tb.Helper()
	root, err := testutil.Root()
	if err != nil {
		tb.Fatal(err)
	}
	dir := filepath.Join(root, "deploy", "kubernetes")
	components, err := filepath.Glob(filepath.Join(dir, "components", "*", "rbac.yaml"))
	if err != nil {
		tb.Fatal(err)
	}
	return append([]string{filepath.Join(dir, "base", "rbac.yaml")}, components...)
}

// Bind gives a user the rights of User.
func (c *Cluster) Bind(tb testing.TB, user string) {
	tb.Helper()
	for _, role := range c.roles {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role + ":" + user},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}
		_, err := c.Client.RbacV1().ClusterRoleBindings().Create(tb.Context(), binding, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			tb.Fatal(err)
		}
	}
}

func (c *Cluster) clientFor(tb testing.TB, kubeconfig string) kubernetes.Interface {
	tb.Helper()
	conf, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		tb.Fatal(err)
	}
	conf.QPS = -1
	client, err := rest.HTTPClientFor(conf)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.CloseIdleConnections)
	set, err := kubernetes.NewForConfigAndClient(conf, client)
	if err != nil {
		tb.Fatal(err)
	}
	return set
}
