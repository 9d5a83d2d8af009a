package clients

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/socket"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// cutEvery is the distance of the positions at which TestInformersAreCut cuts
// connections.
var cutEvery = flag.Int("cut-every", 11, "cut an informer's connection after every N-th byte of a burst")

// cutter connects to the socket. Once, it cuts the connection that has read a number of
// bytes since it was armed.
type cutter struct {
	socket string
	after  int64
	armed  *atomic.Bool
	read   atomic.Int64
	cut    atomic.Bool
}

func (c *cutter) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", c.socket)
	if err != nil {
		return nil, err
	}
	return &countedConn{conn, c}, nil
}

type countedConn struct {
	net.Conn
	of *cutter
}

func (c *countedConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	if !c.of.armed.Load() || c.of.cut.Load() {
		return n, err
	}
	over := c.of.read.Add(int64(n)) - c.of.after
	if over < 0 || c.of.cut.Swap(true) {
		return n, err
	}
	_ = c.Close() // the other end sees the end of the connection
	return n - int(over), io.EOF
}

// cutServer is a journal with a server on a socket.
type cutServer struct {
	journal *journal.Journal
	socket  string
	serial  int
}

func newCutServer(t *testing.T) *cutServer {
	t.Helper()
	s := &cutServer{
		journal: journal.New(journal.Options{Sources: []string{config.ApiserverSource, config.FileSource}}),
		socket:  filepath.Join(testutil.ShortDir(t), "s"),
	}
	l, err := socket.Listen(t.Context(), socket.ListenOptions{Path: s.socket, Mode: 0o600})
	if err != nil {
		t.Fatal(err)
	}
	served := server.New(server.Options{
		Journal: s.journal, Status: func() v1alpha1.Status { return s.journal.Status() },
		Gatherer: prometheus.NewRegistry(), Limits: conn.Limits{Subscribers: 1 << 16, SubscribersPerPeer: 1 << 16},
	})
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	done := make(chan error, 1)
	go func() { done <- served.Run(ctx, l) }()
	t.Cleanup(func() { cancel(); <-done })
	for _, source := range []string{config.ApiserverSource, config.FileSource} {
		s.set(config.PodUpdate{Op: config.ADD, Source: source, Pods: []*v1.Pod{}})
	}
	return s
}

// set appends updates as one set.
func (s *cutServer) set(updates ...config.PodUpdate) {
	for i, u := range updates {
		u.More = i < len(updates)-1
		s.journal.Append(u)
	}
}

// pods returns pods with these names, each in a new version.
func (s *cutServer) pods(names ...string) (pods []*v1.Pod) {
	for _, name := range names {
		s.serial++
		name, mirror := strings.CutPrefix(name, "mirror-")
		name, uid, replaced := strings.Cut(name, "=")
		if !replaced {
			uid = name
		}
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: name, UID: types.UID(uid), Labels: map[string]string{"v": fmt.Sprint(s.serial)},
		}}
		if mirror {
			p.UID = types.UID("mirror-" + name)
			p.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"}
		}
		pods = append(pods, p)
	}
	return pods
}

// burst changes many pods: several updates of several pods each, some of which replace
// the pod of a name.
func (s *cutServer) burst() {
	of := func(op config.PodOperation, source string, names ...string) config.PodUpdate {
		return config.PodUpdate{Op: op, Source: source, Pods: s.pods(names...)}
	}
	s.set(of(config.REMOVE, "file", "a", "b"), of(config.ADD, "file", "c", "d", "a=a2"), of(config.UPDATE, "file", "e", "f", "g"))
	s.set(of(config.REMOVE, "file", "c", "m"), of(config.DELETE, "file", "d", "e"))
	s.set(of(config.ADD, "file", "m=m2", "z"))
}

// calm restores the pods from before a burst.
func (s *cutServer) calm() {
	var gone []*v1.Pod
	for _, p := range s.journal.State().Pods {
		if p.Source == config.FileSource {
			gone = append(gone, p.Object)
		}
	}
	if len(gone) > 0 {
		s.set(config.PodUpdate{Op: config.REMOVE, Source: config.FileSource, Pods: gone})
	} else {
		s.set(config.PodUpdate{Op: config.ADD, Source: config.ApiserverSource, Pods: s.pods("mirror-m")})
	}
	s.set(config.PodUpdate{Op: config.ADD, Source: config.FileSource, Pods: s.pods("a", "b", "e", "f", "g", "m")})
}

func showCut(name, uid, resourceVersion, v string) string {
	return fmt.Sprintf("%s=%s@%s v%s", name, uid, resourceVersion, v)
}

// present returns the final pods of every informer.
func (s *cutServer) present(t *testing.T) string {
	t.Helper()
	pods, _, err := s.journal.Named(0)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, p := range pods {
		lines = append(lines, showCut(p.Object.Name, string(p.Object.UID), fmt.Sprint(p.Revision), p.Object.Labels["v"]))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// cutInformer is an informer whose connection is cut.
type cutInformer struct {
	cutter   *cutter
	informer cache.SharedIndexInformer
}

func newCutInformer(t *testing.T, s *cutServer, contentType string, after int64, armed *atomic.Bool) *cutInformer {
	t.Helper()
	c := &cutter{socket: s.socket, after: after, armed: armed}
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: "http://localhost", QPS: -1, Dial: c.dial,
		ContentConfig: rest.ContentConfig{ContentType: contentType, AcceptContentTypes: contentType},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &cutInformer{c, informers.NewSharedInformerFactory(client, 0).Core().V1().Pods().Informer()}
}

func (i *cutInformer) holds() string {
	var lines []string
	for _, object := range i.informer.GetStore().List() {
		if p, ok := object.(*v1.Pod); ok {
			lines = append(lines, showCut(p.Name, string(p.UID), p.ResourceVersion, p.Labels["v"]))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestInformersAreCut cuts the connections of unmodified informers after every few bytes
// of a burst of updates with several pods. Each informer ends with the current pods.
func TestInformersAreCut(t *testing.T) {
	testutil.Long(t)
	eachInformer(t, func(t *testing.T, _ bool, contentType string) {
		s := newCutServer(t)
		size := cutRound(t, s, contentType, []int64{1 << 40}) // without a cut, to measure the size of a burst
		const atATime = 200
		for from := int64(0); from <= size; {
			var after []int64
			for ; from <= size && len(after) < atATime; from += int64(*cutEvery) {
				after = append(after, from)
			}
			cutRound(t, s, contentType, after)
		}
		t.Logf("cut after every %d of %d bytes", *cutEvery, size)
	})
}

// cutRound runs informers during a burst, and returns how many bytes of it the first one
// read.
func cutRound(t *testing.T, s *cutServer, contentType string, after []int64) int64 {
	t.Helper()
	s.calm()
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	armed := new(atomic.Bool)
	all := make([]*cutInformer, len(after))
	for i, n := range after {
		all[i] = newCutInformer(t, s, contentType, n, armed)
		running.Go(func() { all[i].informer.RunWithContext(ctx) })
	}
	before := s.present(t)
	for _, i := range all {
		i.await(t, before)
	}
	testutil.Until(t, "every informer watches", func() bool { return len(s.journal.Status().Subscribers) >= len(all) })
	armed.Store(true)
	s.burst()
	want := s.present(t)
	for _, i := range all {
		i.await(t, want)
	}
	return all[0].cutter.read.Load()
}

func (i *cutInformer) await(t *testing.T, want string) {
	t.Helper()
	testutil.Eventually(t, func() error {
		if got := i.holds(); got != want {
			return fmt.Errorf("an informer that was cut off after %d bytes holds\n%s\nwant\n%s", i.cutter.after, got, want)
		}
		return nil
	})
}
