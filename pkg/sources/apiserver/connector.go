package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	nethttp "net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"

	"github.com/podconfigd/podconfigd/pkg/sources"
)

// dialTimeout is the maximum time to establish a connection. It is short, so that the
// status shows a failure early.
const dialTimeout = 4 * time.Second

// serviceAccountToken is the file that shows client-go that it is in a cluster.
const serviceAccountToken = "/var/run/secrets/kubernetes.io/serviceaccount/token" //nolint:gosec // a path

// codecs has the core API, metadata, and lists of resources. Nothing else is requested.
var codecs = sync.OnceValue(func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, v1.SchemeGroupVersion)
	utilruntime.Must(metav1.AddMetaToScheme(scheme))
	utilruntime.Must(v1.AddToScheme(scheme))
	return serializer.NewCodecFactory(scheme)
})

// InCluster reports whether the process is in a pod with a service account.
func InCluster() bool {
	_, err := os.Stat(serviceAccountToken)
	return err == nil && os.Getenv("KUBERNETES_SERVICE_HOST") != "" && os.Getenv("KUBERNETES_SERVICE_PORT") != ""
}

// client is a client for an apiserver, made of one version of the files.
type client struct {
	rest   rest.Interface
	server string
	// credentials names the user and the source of the credentials.
	credentials string
	// dialer has the connections. If closed is true, it must have none.
	dialer *connrotation.Dialer
	closed atomic.Bool
	// files are the kubeconfig and the files in it, from which the client was made. sum is their fingerprint.
	files []string
	sum   fingerprint
}

// connector makes clients of a kubeconfig: a new one each time the files change.
type connector struct {
	kubeconfig, userAgent string
	dial                  connrotation.DialFunc

	mu sync.Mutex
	// current is made of the newest usable files.
	current *client
	// files are the last kubeconfig and the files in it. sum is their fingerprint. broken is why they can't be used.
	files  []string
	sum    fingerprint
	broken error
	// distrusted means that the apiserver did not accept current.
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

// get returns the client to use; nil if there is none. changed is closed when the files change. broken
// is why the current files can't be used.
func (c *connector) get() (current *client, changed <-chan struct{}, broken error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && (fingerprintOf(c.files) != c.sum || c.current == nil || c.distrusted) {
		c.load()
	}
	return c.current, c.changed, c.broken
}

// load makes a client of the files. If it can't, the previous client stays.
func (c *connector) load() {
	before := c.sum
	made, err := c.makeClient()
	c.files, c.sum, c.broken = made.files, made.sum, sources.Because(sources.ReasonCredentials, err)
	if err == nil && (c.distrusted || c.current == nil || c.current.sum != c.sum) {
		c.replace(made)
	}
	c.distrusted = false
	if c.sum != before { // unchanged files are no reason to retry sooner
		close(c.changed)
		c.changed = make(chan struct{})
	}
}

func (c *connector) replace(by *client) {
	if c.current != nil {
		c.current.close()
	}
	c.current = by
}

// distrust requests another client for the next attempt, because the apiserver does not
// accept this one.
func (c *connector) distrust(refused *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.distrusted = c.distrusted || c.current == refused
}

// replaced reports whether another client has replaced this one.
func (c *connector) replaced(client *client) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current != client
}

// try makes a request with the current client. If the apiserver does not accept its credentials, or another client
// has replaced it, try makes the request once more, with the client that is current then. It returns the client of
// the last request; nil if there are no usable credentials.
func (c *connector) try(request func(*client) error) (*client, error) {
	for attempt := 0; ; attempt++ {
		client, _, broken := c.get()
		if client == nil {
			return nil, errors.Join(errors.New("there are no usable credentials"), broken)
		}
		switch err := request(client); {
		case attempt == 0 && (apierrors.IsUnauthorized(err) || refusedInTLS(err)):
			c.distrust(client)
		case attempt == 0 && errors.Is(err, errReplaced):
		default:
			return client, err
		}
	}
}

func (c *connector) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replace(nil)
	c.closed = true
}

// makeClient returns a client made of the kubeconfig. If it fails, the client has only
// the files that were read.
func (c *connector) makeClient() (*client, error) {
	files := newReading()
	conf, credentials, err := files.loadConfig(c.kubeconfig)
	made := &client{credentials: credentials, files: files.names, sum: files.fingerprint()}
	if err == nil {
		err = made.connect(conf, c.userAgent, c.dial)
	}
	if err != nil {
		return made, fmt.Errorf("%s: %w", configName(c.kubeconfig), err)
	}
	return made, nil
}

// connect gives the client its own connections, and no goroutine.
func (c *client) connect(conf *rest.Config, userAgent string, dial connrotation.DialFunc) error {
	c.dialer = connrotation.NewDialer(dial)
	conf.Dial = c.dialContext
	if conf.Proxy == nil {
		conf.Proxy = nethttp.ProxyFromEnvironment // set explicitly, it keeps the transport out of client-go's cache
	}
	conf.Wrap(func(next nethttp.RoundTripper) nethttp.RoundTripper { return &notingTransport{next} })
	conf.UserAgent = cmp.Or(userAgent, rest.DefaultKubernetesUserAgent())
	conf.QPS = -1 // no limit: there is one watch, and Source.attempts has the delays
	conf.APIPath, conf.GroupVersion = "/api", &v1.SchemeGroupVersion
	conf.NegotiatedSerializer = codecs().WithoutConversion()
	conf.ContentType = runtime.ContentTypeProtobuf
	conf.AcceptContentTypes = wholeObjects
	c.server = conf.Host
	var err error
	c.rest, err = rest.RESTClientFor(conf)
	return err
}

// errReplaced is the error of a dial that ended after its client was closed. Nothing was sent.
var errReplaced = fmt.Errorf("the credentials changed: %w", net.ErrClosed)

// dialContext dials. If the client was closed meanwhile, it closes the connection: a transport continues
// a dial after its request has ended.
func (c *client) dialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.dialer.DialContext(ctx, network, address)
	if err == nil && c.closed.Load() {
		_ = conn.Close()
		return nil, errReplaced
	}
	return conn, err
}

// close closes all connections of the client.
func (c *client) close() {
	c.closed.Store(true)
	c.dialer.CloseAll()
}

// answer is the part of the answer to a request that client-go does not return.
type answer struct {
	// retryAfter is the wait that the server asks for; 0 if none. client-go ignores it if
	// the answer also has a Status.
	retryAfter time.Duration
}

type answerKey struct{}

// note returns a context whose requests record their answers in a.
func (a *answer) note(ctx context.Context) context.Context {
	return context.WithValue(ctx, answerKey{}, a)
}

// notingTransport records the answers to requests whose context is from answer.note.
type notingTransport struct{ next nethttp.RoundTripper }

func (t *notingTransport) RoundTrip(req *nethttp.Request) (*nethttp.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if a, ok := req.Context().Value(answerKey{}).(*answer); ok && err == nil && resp.StatusCode >= 400 {
		a.retryAfter = sources.RetryAfter(resp.Header.Get("Retry-After"), time.Now(), maxRetryAfter)
	}
	return resp, err
}
