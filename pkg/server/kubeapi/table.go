package kubeapi

import (
	"encoding/json"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

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
