// Package http is the source of the pods of a manifest URL, which serves a Pod or a
// PodList, as YAML or JSON.
//
// # Requests
//
// The source sends a request at the start and every period. Each is delayed by up to a tenth of the
// period, so that many nodes do not send theirs at once. An answer with the
// same body as before is not decoded.
// After a failure, the source waits for a second. The wait doubles with each failure, up to a
// minute. Retry-After makes it longer, up to an hour. The first success ends it.
//
// # Limits
//
// An answer has at most 10 MiB, unpacked, and 256 KiB of headers. It must be complete
// within 10 seconds, including at most ten redirects.
//
// # Which pods stay
//
// The pods of the last good answer stay until the next good answer. An error, an empty
// body, garbage, an invalid Pod, a PodList without a valid pod, and an invalid
// certificate remove nothing. Then the source is degraded. At the start, it is not seen
// until the first good answer. In a PodList with a valid pod, each item has its own
// verdict. An invalid item is reported, and its last good version stays. Only a PodList
// can remove pods: the pods that are not in it, or all pods if its items are empty.
//
// An item whose name can't be read may be any of the missing pods. While there is such an
// item, missing pods are held. If further pods are missing, and there are more missing
// pods than items without a name, the pods that were missing before are removed.
//
// If two pods in a list have the same name or UID, the first counts, and the other is
// reported.
//
// # After a restart
//
// The pods from before a restart are the last good versions of their items, if the URL is
// the same.
//
// # Secrets
//
// The configured headers and the bearer token are sent only to the host of the URL, not to the
// target of a redirect to another host. Logs, errors and the status contain neither these secrets
// nor the user and the query of the URL. What is stored for a restart has only digests.
//
// kubelet: pkg/kubelet/config/http.go.
package http

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	nethttp "net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http/httpguts"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources"
)

const (
	// DefaultPeriod is the interval between requests.
	//
	// kubelet: httpCheckFrequency.
	DefaultPeriod = 20 * time.Second
	// jitter is the maximum delay of a request, as a fraction of the period.
	jitter = 0.1
	// maxRetryAfter is the longest wait after a failure that a server may ask for.
	maxRetryAfter = time.Hour
)

// retries are the waits after a failure, unless the server asks for a longer one: half a
// second to a second, doubled each time, up to a minute, and never longer than the period.
var retries = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 32, Cap: 30 * time.Second}

// Options configure a Source.
type Options struct {
	// Name is the name of the source; empty for config.HTTPSource.
	Name string
	// URL serves the manifest. The pods' UIDs depend on its spelling.
	URL string
	// Header is sent with each request to the URL's host.
	Header nethttp.Header
	// CAFile has the certificates that verify the server; the system's are used if it is
	// empty. CertFile and KeyFile are the client's certificate and key. BearerTokenFile
	// has a token. The files are reloaded when they change.
	CAFile, CertFile, KeyFile, BearerTokenFile string
	// Decoder decodes the manifests.
	Decoder *manifest.Decoder
	// Period is the interval between requests; 0 means DefaultPeriod.
	Period time.Duration
	// Restored is the set from before a restart. It counts only if it is of the same
	// URL.
	Restored sources.Restored
	// Registerer is for the source's metrics; nil for none.
	Registerer prometheus.Registerer

	timeout time.Duration
}

// Source reads the pods of a URL. Its state belongs to the goroutine of Run.
type Source struct {
	url     string
	name    string
	shown   string // the URL without secrets
	period  time.Duration
	decoder *manifest.Decoder
	fetcher *fetcher
	board   *board
	// decodeDuration is a metric.
	decodeDuration prometheus.Observer

	pods *podSet
	sent bool
	// outdated is closed when the pods must be decoded again.
	outdated <-chan struct{}
	// dropped is the number of restored pods that are from another URL.
	dropped int
}

// New returns a source, or an error if an option is invalid. It does nothing before Run.
func New(opts Options) (*Source, error) {
	target, err := url.Parse(opts.URL)
	switch {
	case err != nil:
		return nil, errors.New("the manifest URL is not a valid URL") // the error of url.Parse contains the URL
	case target.Scheme != "http" && target.Scheme != "https":
		return nil, fmt.Errorf("manifest URL %q: expected http or https", redact(target))
	case target.Host == "":
		return nil, fmt.Errorf("manifest URL %q: no host: expected for example https://example.com/pods", redact(target))
	case target.Port() != "" && !validPort(target.Port()):
		return nil, fmt.Errorf("manifest URL %q: port %s: expected 1 to 65535", redact(target), target.Port())
	case (opts.CertFile == "") != (opts.KeyFile == ""):
		return nil, errors.New("client certificate: expected both a certificate file and a key file")
	}
	if err := checkHeader(opts.Header); err != nil {
		return nil, err
	}
	shown := redact(target)
	name := cmp.Or(opts.Name, config.HTTPSource)
	s := &Source{
		url: opts.URL, name: name, shown: shown, period: cmp.Or(opts.Period, DefaultPeriod), decoder: opts.Decoder,
		fetcher: newFetcher(target, opts), board: newBoard(name, shown, opts.Registerer), decodeDuration: sources.NewDecodeDuration(opts.Registerer),
		pods: newPodSet(),
	}
	pods := s.restored(opts.Restored)
	s.pods.restore(pods)
	s.dropped = len(opts.Restored.Pods) - len(pods)
	return s, nil
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// checkHeader returns an error if net/http would refuse the header. Values can be secrets, and what
// follows an invalid character of a name can be a value. The error has neither.
func checkHeader(header nethttp.Header) error {
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if !httpguts.ValidHeaderFieldName(name) {
			valid := strings.IndexFunc(name, func(r rune) bool { return !httpguts.IsTokenRune(r) })
			return fmt.Errorf("a header whose name begins with %q: expected a name without spaces and separators", name[:max(0, valid)])
		}
		for _, value := range header[name] {
			if !httpguts.ValidHeaderFieldValue(value) {
				return fmt.Errorf("header %q: expected a value without control characters", name)
			}
		}
	}
	return nil
}

// redact returns the URL without user and query, which may contain secrets.
func redact(u *url.URL) string {
	shown := *u
	shown.User, shown.RawQuery, shown.Fragment = nil, "", ""
	return shown.String()
}

// Status returns the status of the source and of each pod. It can be called at any time.
func (s *Source) Status() v1alpha1.SourceStatus { return s.board.Status() }

// Run requests the URL and sends the set of pods at each change, until the context is
// done. It returns the context's cause.
func (s *Source) Run(ctx context.Context, sets chan<- config.SourceSet) error {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("source", s.name, "url", s.shown))
	defer s.fetcher.close()
	if s.dropped > 0 {
		klog.FromContext(ctx).Info("The manifest URL has changed, the pods of the other URL will be removed", "pods", s.dropped)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	backoff := retries
	s.outdated = s.decoder.Changed()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		case <-s.outdated: // by the rules of another kubelet
			s.outdated = s.decoder.Changed()
			s.fetcher.forget()
		}
		answer, err := s.fetcher.fetch(ctx)
		if err == nil && !answer.unchanged {
			err = s.applyAnswer(ctx, answer, sets)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			pause := s.pause(&backoff, answer)
			s.board.Failed(ctx, err, "Failed to read the manifest URL, keeping its last pods", "retryIn", pause.Round(time.Millisecond))
			timer.Reset(pause)
			continue
		}
		s.board.succeeded(ctx)
		backoff = retries
		timer.Reset(s.period + time.Duration(rand.Float64()*jitter*float64(s.period)))
	}
}

// pause returns the wait after a failure.
func (s *Source) pause(backoff *wait.Backoff, failed answer) time.Duration {
	return max(min(backoff.Step(), s.period), failed.retryAfter)
}

// applyAnswer applies the answer, and sends the set if it changed. It remembers the answer only if this
// succeeds.
func (s *Source) applyAnswer(ctx context.Context, answer answer, sets chan<- config.SourceSet) error {
	started := time.Now()
	changed, unusable, err := s.decode(ctx, answer)
	if unusable != nil {
		return sources.Because(sources.ReasonInvalid, unusable)
	}
	s.decodeDuration.Observe(time.Since(started).Seconds())
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.board.judge(ctx, s.pods.verdicts())
	if err != nil {
		s.fetcher.forget() // the verdicts are those of this answer
		return sources.Because(sources.ReasonInvalid, err)
	}
	s.fetcher.remember(answer)
	if s.sent && !changed {
		return nil
	}
	return s.send(ctx, answer, sets)
}

// decode applies the pods of an answer, and reports whether the set changed. A decoded pod can make
// the decoder use the rules of another kubelet.
func (s *Source) decode(ctx context.Context, answer answer) (changed bool, unusable, err error) {
	for {
		s.outdated = s.decoder.Changed()
		items, err := s.decoder.DecodeURL(s.url, answer.body)
		if err != nil {
			return changed, err, nil
		}
		renewed, err := s.pods.apply(ctx, answer.body, items, s.outdated) // decodes each item
		changed = changed || renewed
		if !errors.Is(err, errOutdated) {
			return changed, nil, err
		}
	}
}

// Last returns the set of the source. It makes the source a sources.Predecessor.
func (s *Source) Last() sources.Restored {
	return sources.Restored{Pods: s.pods.serving(), Attributes: s.attributes()}
}

// send sends the set, which follows from the answer.
func (s *Source) send(ctx context.Context, answer answer, sets chan<- config.SourceSet) error {
	last := s.Last()
	set := config.SourceSet{
		Pods: last.Pods, Origin: s.shown, Attributes: last.Attributes,
		Event: config.Event{Time: answer.arrived, Began: answer.arrived, Read: time.Now()},
	}
	select {
	case sets <- set:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.sent = true
	s.board.Sent()
	return nil
}
