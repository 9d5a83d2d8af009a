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
	"github.com/podconfigd/podconfigd/pkg/server/internal/params"
)

// options are the options of a request. Unknown parameters are ignored, as by the apiserver.
type options struct {
	resource *resource
	form     *form
	watch    bool
	selector view.Selector
	// scope is what the client sees. It is set after parsing.
	scope *view.Scope
	// revision is the parameter resourceVersion, or 0. given is true if it is not empty.
	revision int64
	given    bool
	match    metav1.ResourceVersionMatch

	limit    int64
	next     *continuation
	bookmark bool
	// initial is the parameter sendInitialEvents; nil if it was not given.
	initial *bool
	timeout time.Duration
}

// parser parses parameters and collects their faults.
type parser struct {
	params.Faults
	resource *resource
	query    url.Values
}

func (p *parser) bool(name string) (value, given bool) {
	s, given := p.query[name]
	if !given || s[0] == "" {
		return given, given // ?watch is true
	}
	value, err := strconv.ParseBool(s[0])
	if err != nil {
		p.Add(name, fmt.Errorf("expected true or false, got %q", s[0]))
	}
	return value, true
}

// maxSeconds is the maximum of a time.Duration in seconds.
const maxSeconds = int64(math.MaxInt64 / time.Second)

// number parses a parameter that is a whole number within bounds.
func (p *parser) number(name string, smallest, largest int64) int64 {
	s := p.query.Get(name)
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < smallest || n > largest {
		p.Add(name, fmt.Errorf("expected a whole number from %d to %d, got %q", smallest, largest, s))
	}
	return n
}

// parseOptions parses a request. It returns a status if the request is invalid.
func parseOptions(r *http.Request, res *resource) (*options, *metav1.Status) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest(fmt.Errorf("parsing the query: %w", err))
	}
	p := &parser{resource: res, query: query}
	o := &options{resource: res, form: negotiate(r, res.kind)}
	if o.form == nil {
		return nil, notAcceptable(r)
	}
	o.form.columns = res.columns
	p.Add("includeObject", o.form.check())
	o.revision, o.given = p.number("resourceVersion", 0, math.MaxInt64), query.Get("resourceVersion") != ""
	if r.PathValue("name") == "" {
		p.listOptions(o, r.PathValue("namespace"))
	}
	if err := p.Err(); err != nil {
		return nil, badRequest(err)
	}
	if status := o.form.fits(r.PathValue("name") == "" && !o.watch); status != nil {
		return nil, status
	}
	return o, nil
}

// listOptions parses the parameters of lists and watches.
func (p *parser) listOptions(o *options, namespace string) {
	o.watch, _ = p.bool("watch")
	o.bookmark, _ = p.bool("allowWatchBookmarks")
	if initial, given := p.bool("sendInitialEvents"); given {
		o.initial = &initial
	}
	o.limit = p.number("limit", math.MinInt64, math.MaxInt64) // not positive: no limit, as for the apiserver
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
			err = errors.New("no revision or no name")
		}
		if err != nil {
			p.Add("continue", fmt.Errorf("not a token of this server: %w", err))
		}
	}
	p.check(o)
}

func (p *parser) selector(namespace string) view.Selector {
	s := view.Selector{Namespace: namespace}
	var err error
	if p.resource.Namespaced { // pods
		s.Owner, err = podfields.ParseOwner(p.query.Get("owner"))
		p.Add("owner", err)
	}
	s.Labels, err = labels.Parse(p.query.Get("labelSelector"))
	p.Add("labelSelector", err)
	s.Fields, err = p.resource.parseFields(p.query.Get("fieldSelector"))
	p.Add("fieldSelector", err)
	return s
}

// check validates the combination of the parameters.
//
// apiserver: k8s.io/apimachinery/pkg/apis/meta/internalversion/validation ValidateListOptions.
func (p *parser) check(o *options) {
	if o.watch {
		switch {
		case o.initial != nil && o.match != metav1.ResourceVersionMatchNotOlderThan:
			p.Add("sendInitialEvents", errors.New("requires resourceVersionMatch=NotOlderThan"))
		case o.initial == nil && o.match != "":
			p.Add("resourceVersionMatch", errors.New("requires sendInitialEvents in a watch"))
		}
		if o.next != nil { // limit is ignored, because clients send it
			p.Add("continue", errors.New("not allowed in a watch"))
		}
		return
	}
	if o.initial != nil {
		p.Add("sendInitialEvents", errors.New("only allowed in a watch"))
	}
	switch o.match {
	case "":
	case metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan:
		if !o.given {
			p.Add("resourceVersionMatch", errors.New("requires resourceVersion"))
		}
		if o.match == metav1.ResourceVersionMatchExact && o.given && o.revision == 0 {
			p.Add("resourceVersionMatch", errors.New("resourceVersionMatch=Exact requires a resourceVersion other than 0"))
		}
	default:
		p.Add("resourceVersionMatch", fmt.Errorf("expected Exact or NotOlderThan, got %q", o.match))
	}
	if o.next != nil && (o.revision != 0 || o.match != "") {
		p.Add("continue", errors.New("not allowed together with resourceVersion or resourceVersionMatch"))
	}
}
