package kubeapi

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/internal/apistatus"
	"github.com/podconfigd/podconfigd/internal/printable"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// page is a page of a list.
type page struct {
	items    []item
	revision int64
	// next is the start of the next page; nil on the last page. remaining is the number of
	// objects on later pages; nil if it is not reported.
	next      *continuation
	remaining *int64
}

// list answers with a list.
func (a *API) list(w http.ResponseWriter, o *options) {
	page, status := a.page(o)
	if status != nil {
		respond.Status(w, status)
		return
	}
	list := o.form.list
	if o.form.table {
		list = o.form.listTable
	}
	data, err := list(page)
	if err != nil {
		respond.Error(w, http.StatusInternalServerError, err.Error())
		return
	}
	respond.Within(w, a.Limits.ListTimeout)
	w.Header().Set("Content-Type", o.form.contentType)
	_, _ = w.Write(data) // the client may have gone away
}

// page returns the requested page.
func (a *API) page(o *options) (*page, *metav1.Status) {
	var at int64
	switch {
	case o.next != nil:
		at = o.next.Revision
	case o.match == metav1.ResourceVersionMatchExact:
		at = o.revision
	}
	if head := a.Gate.Revision(); o.revision > head {
		return nil, tooLarge(o.revision, head)
	}
	items, revision, err := o.resource.list(o, at)
	if compacted, ok := errors.AsType[*journal.CompactedError](err); ok {
		return nil, expired(compacted)
	}
	if err != nil {
		return nil, apistatus.Status(http.StatusServiceUnavailable, err.Error())
	}
	p := &page{items: items, revision: revision}
	if o.next != nil {
		after := slices.IndexFunc(p.items, func(i item) bool {
			namespace, name := i.name()
			return namespace > o.next.Namespace || (namespace == o.next.Namespace && name > o.next.Name)
		})
		if after < 0 {
			after = len(p.items)
		}
		p.items = p.items[after:]
	}
	if n := int64(len(p.items)) - o.limit; o.limit > 0 && n > 0 {
		p.items = p.items[:o.limit]
		namespace, name := p.items[o.limit-1].name()
		p.next = &continuation{Revision: revision, Namespace: namespace, Name: name}
		p.remaining = &n
	}
	return p, nil
}

func (p *page) meta() metav1.ListMeta {
	meta := metav1.ListMeta{ResourceVersion: strconv.FormatInt(p.revision, 10), RemainingItemCount: p.remaining}
	if p.next != nil {
		meta.Continue = p.next.String()
	}
	return meta
}

// largeObject is the size in bytes beyond which an answer with one object counts as a list.
const largeObject = 64 << 10

// one answers a request for one object.
func (a *API) one(w http.ResponseWriter, r *http.Request, opts *options) {
	res := opts.resource
	if head := a.Gate.Revision(); opts.revision > head {
		respond.Status(w, tooLarge(opts.revision, head))
		return
	}
	name := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	found := res.get(opts.scope, name)
	if found == nil {
		if err := opts.scope.Err(); err != nil {
			respond.Error(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		status := apistatus.Status(http.StatusNotFound, fmt.Sprintf("%s %q not found", res.Name, name.Name))
		status.Details = &metav1.StatusDetails{Name: name.Name, Kind: res.Name}
		respond.Status(w, status)
		return
	}
	var data []byte
	var err error
	if opts.form.table {
		data, err = opts.form.tableOf(true, found.version(), found)
	} else {
		data, err = opts.form.object(nil, found, found.version())
	}
	if opts.form.yaml && err == nil {
		data, err = printable.YAML(json.RawMessage(data))
	}
	if err != nil {
		respond.Error(w, http.StatusInternalServerError, err.Error())
		return
	}
	if len(data) > largeObject {
		release, refusal := a.Limits.List(r.Context())
		if refusal != nil {
			respond.Failure(w, refusal)
			return
		}
		defer release()
		respond.Within(w, a.Limits.ListTimeout)
	}
	w.Header().Set("Content-Type", opts.form.contentType)
	_, _ = w.Write(data) // the client may have gone away
}

// continuation is the content of the parameter continue.
type continuation struct {
	Revision int64 `json:"rv"`
	// Namespace and Name identify the last object of the previous page.
	Namespace string `json:"ns"`
	Name      string `json:"name"`
}

func (c *continuation) String() string {
	data, _ := json.Marshal(c) // never fails for strings and a number
	return base64.RawURLEncoding.EncodeToString(data)
}
