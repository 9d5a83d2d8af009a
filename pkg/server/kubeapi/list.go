package kubeapi

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

// tableOf encodes a table with one object at a revision.
func (f *form) tableOf(headed bool, revision int64, i item) ([]byte, error) {
	table := f.newTable(headed)
	table.ResourceVersion = strconv.FormatInt(revision, 10)
	if err := f.addRow(table, i, revision); err != nil {
		return nil, err
	}
	return json.Marshal(table)
}

// listTable encodes a list as a table.
func (f *form) listTable(p *page) ([]byte, error) {
	table := f.newTable(true)
	table.ListMeta = p.meta()
	for _, item := range p.items {
		if err := f.addRow(table, item, item.version()); err != nil {
			return nil, err
		}
	}
	return json.Marshal(table)
}

func (f *form) newTable(headed bool) *metav1.Table {
	table := &metav1.Table{
		TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: metav1.SchemeGroupVersion.Group + "/v1"},
		Rows:     []metav1.TableRow{}, ColumnDefinitions: []metav1.TableColumnDefinition{},
	}
	if headed {
		table.ColumnDefinitions = f.columns
	}
	return table
}

// bookmarkTable encodes a table with no object.
func (f *form) bookmarkTable(meta *metav1.ObjectMeta) ([]byte, error) {
	table := f.newTable(false)
	table.ResourceVersion = meta.ResourceVersion
	object, err := (&form{kind: partialMetadata}).bookmark(meta)
	if err != nil {
		return nil, err
	}
	table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{}, Object: runtime.RawExtension{Raw: object}})
	return json.Marshal(table)
}

// addRow adds the row of an object, with the part of the object that the request includes.
func (f *form) addRow(table *metav1.Table, i item, revision int64) (err error) {
	row := metav1.TableRow{Cells: i.cells()}
	if f.include != metav1.IncludeNone {
		row.Object.Raw, err = i.appendAs(nil, f.include == metav1.IncludeObject, false, revision)
	}
	table.Rows = append(table.Rows, row)
	return err
}

// The printers of the apiserver are not used, because they import every API group, which
// costs 20 MB of binary and 11 MB of resident memory. A test in test/conformance compares the
// rows.

// The columns of each resource.
//
// apiserver: k8s.io/kubernetes/pkg/printers/internalversion.
var (
	podColumns = []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]},
		{Name: "Ready", Type: "string", Description: "The number of ready containers of the pod."},
		{Name: "Status", Type: "string", Description: "The aggregate state of the containers of the pod."},
		{Name: "Restarts", Type: "string", Description: "The number of container restarts of the pod, and the time since the last."},
		{Name: "Age", Type: "string", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]},
		{Name: "IP", Type: "string", Priority: 1, Description: v1.PodStatus{}.SwaggerDoc()["podIP"]},
		{Name: "Node", Type: "string", Priority: 1, Description: v1.PodSpec{}.SwaggerDoc()["nodeName"]},
		{Name: "Nominated Node", Type: "string", Priority: 1, Description: v1.PodStatus{}.SwaggerDoc()["nominatedNodeName"]},
		{Name: "Readiness Gates", Type: "string", Priority: 1, Description: v1.PodSpec{}.SwaggerDoc()["readinessGates"]},
	}
	nodeColumns = []metav1.TableColumnDefinition{
		nameColumn,
		{Name: "Status", Type: "string", Description: "The status of the node"},
		{Name: "Roles", Type: "string", Description: "The roles of the node"},
		ageColumn,
		{Name: "Version", Type: "string", Description: v1.NodeSystemInfo{}.SwaggerDoc()["kubeletVersion"]},
		{Name: "Internal-IP", Type: "string", Priority: 1, Description: v1.NodeStatus{}.SwaggerDoc()["addresses"]},
		{Name: "External-IP", Type: "string", Priority: 1, Description: v1.NodeStatus{}.SwaggerDoc()["addresses"]},
		{Name: "OS-Image", Type: "string", Priority: 1, Description: v1.NodeSystemInfo{}.SwaggerDoc()["osImage"]},
		{Name: "Kernel-Version", Type: "string", Priority: 1, Description: v1.NodeSystemInfo{}.SwaggerDoc()["kernelVersion"]},
		{Name: "Container-Runtime", Type: "string", Priority: 1, Description: v1.NodeSystemInfo{}.SwaggerDoc()["containerRuntimeVersion"]},
	}
	namespaceColumns = []metav1.TableColumnDefinition{
		nameColumn,
		{Name: "Status", Type: "string", Description: "The status of the namespace"},
		ageColumn,
	}

	nameColumn = metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]}
	ageColumn  = metav1.TableColumnDefinition{Name: "Age", Type: "string", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]}
)
