package kubeapi

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// options are what a request asks for. Parameters that are not known are passed
// over, as the apiserver does.
type options struct {
	form     *form
	watch    bool
	selector view.Selector
	// revision is 0 where none was given, or that.
	revision int64
	given    bool
	match    metav1.ResourceVersionMatch

	limit    int64
	next     *continuation
	bookmark bool
	// initial says whether the present pods come first; nil where it was not said.
	initial *bool
	timeout time.Duration
}

// parser collects what is wrong with the parameters.
type parser struct {
	query url.Values
	errs  []error
}

func (p *parser) fail(name string, err error) {
	p.errs = append(p.errs, fmt.Errorf("parameter %q: %w", name, err))
}

func (p *parser) bool(name string) (value, given bool) {
	s, given := p.query[name]
	if !given || s[0] == "" {
		return given, given // as with ?watch
	}
	value, err := strconv.ParseBool(s[0])
	if err != nil {
		p.fail(name, fmt.Errorf("%q is neither true nor false", s[0]))
	}
	return value, true
}

// maxSeconds is how many seconds a time.Duration can be.
const maxSeconds = int64(math.MaxInt64 / time.Second)

// number returns the value of a parameter that is a whole number within bounds.
func (p *parser) number(name string, smallest, largest int64) int64 {
	s := p.query.Get(name)
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < smallest || n > largest {
		p.fail(name, fmt.Errorf("expected a whole number from %d to %d, got %q", smallest, largest, s))
	}
	return n
}

// parseOptions reads a request. The status says what is wrong with it.
func parseOptions(r *http.Request) (*options, *metav1.Status) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest(fmt.Errorf("the query can't be read: %w", err))
	}
	p := &parser{query: query}
	o := &options{form: negotiate(r)}
	if o.form == nil {
		return nil, notAcceptable(r)
	}
	if err := o.form.check(); err != nil {
		p.fail("includeObject", err)
	}
	o.revision, o.given = p.number("resourceVersion", 0, math.MaxInt64), query.Get("resourceVersion") != ""
	if r.PathValue("name") == "" {
		p.listOptions(o, r.PathValue("namespace"))
	}
	if len(p.errs) > 0 {
		return nil, badRequest(errors.Join(p.errs...))
	}
	if status := o.form.fits(r.PathValue("name") == "" && !o.watch); status != nil {
		return nil, status
	}
	return o, nil
}

// listOptions reads the parameters that lists and watches have.
func (p *parser) listOptions(o *options, namespace string) {
	o.watch, _ = p.bool("watch")
	o.bookmark, _ = p.bool("allowWatchBookmarks")
	if initial, given := p.bool("sendInitialEvents"); given {
		o.initial = &initial
	}
	o.limit = p.number("limit", math.MinInt64, math.MaxInt64) // none where it is not positive, as for the apiserver
	o.timeout = time.Duration(p.number("timeoutSeconds", 0, maxSeconds)) * time.Second
	o.match = metav1.ResourceVersionMatch(p.query.Get("resourceVersionMatch"))
	o.selector = p.selector(namespace)
	if token := p.query.Get("continue"); token != "" {
		o.next = new(continuation)
		data, err := base64.RawURLEncoding.DecodeString(token)
		if err == nil {
			err = json.Unmarshal(data, o.next)
		}
		if err == nil && (o.next.Revision <= 0 || o.next.Name == "") {
			err = errors.New("it names no revision or no pod")
		}
		if err != nil {
			p.fail("continue", fmt.Errorf("it is not a token that this server gave: %w", err))
		}
	}
	p.check(o)
}

func (p *parser) selector(namespace string) view.Selector {
	s := view.Selector{Namespace: namespace}
	var err error
	if s.Labels, err = labels.Parse(p.query.Get("labelSelector")); err != nil {
		p.fail("labelSelector", err)
	}
	if s.Fields, err = podfields.ParseAPI(p.query.Get("fieldSelector")); err != nil {
		p.fail("fieldSelector", err)
	}
	return s
}

// check holds the parameters to what they may be together.
//
// apiserver: k8s.io/apimachinery/pkg/apis/meta/internalversion/validation ValidateListOptions.
func (p *parser) check(o *options) {
	if o.watch {
		switch {
		case o.initial != nil && o.match != metav1.ResourceVersionMatchNotOlderThan:
			p.fail("sendInitialEvents", errors.New("it wants resourceVersionMatch=NotOlderThan"))
		case o.initial == nil && o.match != "":
			p.fail("resourceVersionMatch", errors.New("for a watch it goes with sendInitialEvents only"))
		}
		if o.next != nil { // a limit means nothing here, but clients send one
			p.fail("continue", errors.New("it is for lists"))
		}
		return
	}
	if o.initial != nil {
		p.fail("sendInitialEvents", errors.New("it is for watches"))
	}
	switch o.match {
	case "":
	case metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan:
		if !o.given {
			p.fail("resourceVersionMatch", errors.New("it means nothing without resourceVersion"))
		}
		if o.match == metav1.ResourceVersionMatchExact && o.given && o.revision == 0 {
			p.fail("resourceVersionMatch", errors.New("with Exact, resourceVersion has to be other than 0"))
		}
	default:
		p.fail("resourceVersionMatch", fmt.Errorf("%q is neither Exact nor NotOlderThan", o.match))
	}
	if o.next != nil && (o.revision != 0 || o.match != "") {
		p.fail("continue", errors.New("it says the resourceVersion itself"))
	}
}
