package kubeapi

import (
	"encoding/json"
	"strconv"

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
