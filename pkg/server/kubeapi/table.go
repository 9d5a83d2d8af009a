package kubeapi

import (
	"encoding/json"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podconfigd/podconfigd/internal/podtable"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/wire"
)

// The printers of the apiserver are not used, because they import every API group, which
// costs 20 MB of binary and 11 MB of resident memory. A test in test/conformance compares the
// rows.

// columns are the columns of pods.
//
// apiserver: k8s.io/kubernetes/pkg/printers/internalversion.
var columns = []metav1.TableColumnDefinition{
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

// tableOf encodes a table with one pod at a revision.
func (f *form) tableOf(headed bool, revision int64, pod *journal.Pod) ([]byte, error) {
	table := newTable(headed)
	table.ResourceVersion = strconv.FormatInt(revision, 10)
	if err := f.addRow(table, pod, revision); err != nil {
		return nil, err
	}
	return json.Marshal(table)
}

// listTable encodes a list as a table.
func (f *form) listTable(p *page) ([]byte, error) {
	table := newTable(true)
	table.ListMeta = p.meta()
	for _, pod := range p.pods {
		if err := f.addRow(table, pod, pod.Revision); err != nil {
			return nil, err
		}
	}
	return json.Marshal(table)
}

func newTable(headed bool) *metav1.Table {
	table := &metav1.Table{
		TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: metav1.SchemeGroupVersion.Group + "/v1"},
		Rows:     []metav1.TableRow{}, ColumnDefinitions: []metav1.TableColumnDefinition{},
	}
	if headed {
		table.ColumnDefinitions = columns
	}
	return table
}

// bookmarkTable encodes a table with no pod.
func (f *form) bookmarkTable(meta *metav1.ObjectMeta) ([]byte, error) {
	table := newTable(false)
	table.ResourceVersion = meta.ResourceVersion
	object, err := (&form{kind: partialMetadata}).bookmark(meta)
	if err != nil {
		return nil, err
	}
	table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{}, Object: runtime.RawExtension{Raw: object}})
	return json.Marshal(table)
}

// addRow adds the row of a pod, with the part of the pod that the request includes.
func (f *form) addRow(table *metav1.Table, p *journal.Pod, revision int64) (err error) {
	pod := *p.Object
	pod.CreationTimestamp = wire.Created(p)
	row := metav1.TableRow{Cells: podtable.Cells(&pod, time.Now())}
	switch f.include {
	case metav1.IncludeNone:
	case metav1.IncludeObject:
		row.Object.Raw, err = wire.AppendJSON(nil, p, revision)
	default:
		row.Object.Raw, err = wire.AppendMetadataJSON(nil, p, revision)
	}
	table.Rows = append(table.Rows, row)
	return err
}
