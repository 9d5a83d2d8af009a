package apiserver

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	nethttp "net/http"
	"os"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/connrotation"
)

// dialTimeout is how long a connection may take to be made, so that the status soon
// says that it can't be.
const dialTimeout = 4 * time.Second

// serviceAccountToken is the file by which client-go knows that it is in a cluster.
const serviceAccountToken = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// codecs knows the core API and lists of metadata: nothing else is asked for.
var codecs = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, v1.SchemeGroupVersion)
	utilruntime.Must(metav1.AddMetaToScheme(scheme))
	utilruntime.Must(v1.AddToScheme(scheme))
	return serializer.NewCodecFactory(scheme)
}()

// InCluster tells whether the process is in a pod with a service account.
func InCluster() bool {
	_, err := os.Stat(serviceAccountToken)
	return err == nil && os.Getenv("KUBERNETES_SERVICE_HOST") != "" && os.Getenv("KUBERNETES_SERVICE_PORT") != ""
}

// client speaks to an apiserver with what some version of the files said.
type client struct {
	rest   rest.Interface
	server string
	// credentials names the user and where the credentials come from.
	credentials string
	dialer      *connrotation.Dialer
	// files are those that the kubeconfig names, sum is of them and of it.
	files []string
	sum   fingerprint
}

// fingerprint tells one content of the files from another.
type fingerprint [sha256.Size]byte

// connector makes clients of a kubeconfig, another each time the files change.
type connector struct {
	kubeconfig, userAgent string
	dial                  connrotation.DialFunc

	mu sync.Mutex
	// current is made of the newest files that could be used.
	current *client
	// files are those that the kubeconfig named last, and sum what was in them and in
	// it; broken is why they can't be used.
	files  []string
	sum    fingerprint
	broken error
	// distrusted: the apiserver did not accept what current has of them.
	distrusted bool
	// changed is closed when the files change.
	changed chan struct{}
	closed  bool
}

func newConnector(kubeconfig, userAgent string) *connector {
	return &connector{
		kubeconfig: kubeconfig, userAgent: userAgent, changed: make(chan struct{}),
		dial: (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
	}
}

// get returns the client to use, if there is one yet, a channel that is closed when
// there is another, and why the files as they are now can't be used, if so.
func (c *connector) get() (current *client, changed <-chan struct{}, broken error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sum := sumOf(append([]string{c.kubeconfig}, c.files...)); !c.closed && (sum != c.sum || c.current == nil || c.distrusted) {
		c.load()
	}
	return c.current, c.changed, c.broken
}

// load makes a client of the files, and leaves the one before where it can't.
func (c *connector) load() {
	before := c.sum
	made, err := c.makeClient()
	c.files, c.sum, c.broken = made.files, made.sum, err
	if err == nil && (c.distrusted || c.current == nil || c.current.sum != c.sum) {
		c.replace(made)
	}
	c.distrusted = false
	if c.sum != before { // what is as it was is no reason to ask again sooner
		close(c.changed)
		c.changed = make(chan struct{})
	}
}

func (c *connector) replace(by *client) {
	if c.current != nil {
		c.current.dialer.CloseAll()
	}
	c.current = by
}

// distrust has another client made for the next attempt, for the apiserver does not
// accept this one.
func (c *connector) distrust(refused *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.distrusted = c.distrusted || c.current == refused
}

// replaced tells whether another client took the place of that one.
func (c *connector) replaced(client *client) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current != client
}

func (c *connector) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replace(nil)
	c.closed = true
}

// sumOf returns the fingerprint of the files; one that can't be read counts as such.
func sumOf(files []string) fingerprint {
	hash := sha256.New()
	for _, file := range files {
		if file == "" {
			continue
		}
		data, err := os.ReadFile(file)
		fmt.Fprintf(hash, "%q %d %v\n", file, len(data), err)
		hash.Write(data)
	}
	return fingerprint(hash.Sum(nil))
}

// makeClient returns a client made of the kubeconfig; with an error one that is no
// more than the files that were read.
func (c *connector) makeClient() (*client, error) {
	made := &client{}
	conf, _, err := loadConfig(c.kubeconfig)
	if err == nil {
		made.files = slices.DeleteFunc([]string{conf.CAFile, conf.CertFile, conf.KeyFile}, func(name string) bool { return name == "" })
	}
	all := append([]string{c.kubeconfig}, made.files...)
	made.sum = sumOf(all)
	if err == nil {
		conf, made.credentials, err = loadConfig(c.kubeconfig) // what the fingerprint is of
	}
	if err == nil {
		err = made.connect(conf, c.userAgent, c.dial)
	}
	if sumOf(all) != made.sum { // they are being written: the next look is to read them again
		made.sum = fingerprint{}
	}
	if err != nil {
		return made, fmt.Errorf("%s: %w", configName(c.kubeconfig), err)
	}
	return made, nil
}

// connect gives the client connections of its own, and no goroutine.
func (c *client) connect(conf *rest.Config, userAgent string, dial connrotation.DialFunc) error {
	// With what is in the files rather than their names client-go starts nothing to
	// reload them, which could not be stopped again.
	if err := rest.LoadTLSFiles(conf); err != nil {
		return err
	}
	conf.CAFile, conf.CertFile, conf.KeyFile = "", "", ""
	c.dialer = connrotation.NewDialer(dial)
	conf.Dial = c.dialer.DialContext
	if conf.Proxy == nil {
		conf.Proxy = nethttp.ProxyFromEnvironment // said outright, it keeps the transport out of client-go's cache
	}
	conf.Wrap(func(next nethttp.RoundTripper) nethttp.RoundTripper { return &notingTransport{next} })
	conf.UserAgent = cmp.Or(userAgent, rest.DefaultKubernetesUserAgent())
	conf.QPS = -1 // there is one watch, and attempts wait as they do
	conf.APIPath, conf.GroupVersion = "/api", &v1.SchemeGroupVersion
	conf.NegotiatedSerializer = codecs.WithoutConversion()
	conf.ContentType = runtime.ContentTypeProtobuf
	conf.AcceptContentTypes = wholeObjects
	c.server = conf.Host
	var err error
	c.rest, err = rest.RESTClientFor(conf)
	return err
}

func configName(kubeconfig string) string {
	if kubeconfig == "" {
		return "in-cluster configuration"
	}
	return "kubeconfig " + kubeconfig
}

// loadConfig reads a kubeconfig, or the pod's service account for an empty path, and names
// the credentials.
func loadConfig(kubeconfig string) (conf *rest.Config, credentials string, err error) {
	if kubeconfig == "" {
		conf, err = rest.InClusterConfig()
		return conf, "service account token " + serviceAccountToken, err
	}
	file, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return nil, "", err
	}
	if err := usable(file); err != nil {
		return nil, "", err
	}
	if err := clientcmd.ResolveLocalPaths(file); err != nil {
		return nil, "", err
	}
	conf, err = clientcmd.NewNonInteractiveClientConfig(*file, "", &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	return conf, credentialsOf(kubeconfig, file), err
}

// usable says what a kubeconfig lacks, more plainly than client-go, which goes on to
// other places that a configuration could come from.
func usable(file *clientcmdapi.Config) error {
	switch {
	case clientcmdapi.IsConfigEmpty(file):
		return errors.New("it is empty: want clusters, users, contexts and a current-context")
	case file.CurrentContext == "":
		return errors.New("it has no current-context")
	case file.Contexts[file.CurrentContext] == nil:
		return fmt.Errorf("there is no context of the name %q, which is the current-context", file.CurrentContext)
	}
	context := file.Contexts[file.CurrentContext]
	switch {
	case file.Clusters[context.Cluster] == nil:
		return fmt.Errorf("there is no cluster of the name %q, which context %q names", context.Cluster, file.CurrentContext)
	case file.Clusters[context.Cluster].Server == "":
		return fmt.Errorf("cluster %q has no server", context.Cluster)
	}
	return nil
}
