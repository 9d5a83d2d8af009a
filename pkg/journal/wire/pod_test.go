package wire

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// For any metadata, the Kubernetes API's form of a pod equals the marshaled pod with its
// revision as resourceVersion and, if it has no creationTimestamp, the time at which it
// was first seen. The plain form has neither.
func TestRevisionsInForms(t *testing.T) {
	const seen = "2026-05-04T03:02:01.987654321+02:00"
	for name, meta := range map[string]metav1.ObjectMeta{
		"nothing":                    {},
		"no version":                 {Name: "a", UID: "u"},
		"only a version":             {ResourceVersion: "1"},
		"a name and a version":       {Name: "a", ResourceVersion: "77"},
		"a label with the field":     {Name: "a", ResourceVersion: "77", UID: "u", Labels: map[string]string{"resourceVersion": "1"}},
		"a quote":                    {Name: "a", ResourceVersion: `a"b`},
		"a backslash":                {Name: "a", ResourceVersion: `a\`, Namespace: "n"},
		"a version with a field":     {Name: "a", ResourceVersion: `<","uid":"x`},
		"a name with the field":      {Name: `"metadata":{"resourceVersion":"5"`, ResourceVersion: "é\x00\u2028"},
		"an annotation with it":      {Annotations: map[string]string{"x": `"resourceVersion":"8"`}},
		"first seen":                 {Annotations: map[string]string{config.ConfigFirstSeenAnnotationKey: seen}},
		"first seen, with a version": {Name: "a", ResourceVersion: "77", Annotations: map[string]string{config.ConfigFirstSeenAnnotationKey: seen}},
		"first seen, not a time":     {Name: "a", Annotations: map[string]string{config.ConfigFirstSeenAnnotationKey: "yesterday"}},
		"created and first seen":     {CreationTimestamp: metav1.Unix(1e9, 0), Annotations: map[string]string{config.ConfigFirstSeenAnnotationKey: seen}},
	} {
		t.Run(name, func(t *testing.T) {
			object := &v1.Pod{ObjectMeta: meta, Spec: v1.PodSpec{NodeName: "n"}}
			p := journal.NewPod("file", object)
			want := *object
			want.ResourceVersion = "1795267200123"
			if meta.CreationTimestamp.IsZero() && meta.Annotations[config.ConfigFirstSeenAnnotationKey] == seen {
				want.CreationTimestamp = metav1.Unix(time.Date(2026, 5, 4, 1, 2, 1, 0, time.UTC).Unix(), 0)
			}

			var fromJSON, fromProtobuf, original v1.Pod
			data, err := AppendJSON([]byte("x"), p, 1795267200123)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(data[1:], &fromJSON); err != nil {
				t.Fatalf("%v in %s", err, data)
			}
			fromJSON.TypeMeta = metav1.TypeMeta{}
			if data, err = AppendProtobuf([]byte("x"), p, 1795267200123); err != nil {
				t.Fatal(err)
			}
			if err := fromProtobuf.Unmarshal(data[1:]); err != nil {
				t.Fatalf("%v in %q", err, data)
			}
			for form, got := range map[string]*v1.Pod{"JSON": &fromJSON, "protobuf": &fromProtobuf} {
				if diff := cmp.Diff(&want, got); diff != "" {
					t.Errorf("%s: %s", form, diff)
				}
			}
			var metadataJSON, metadataProtobuf metav1.PartialObjectMetadata
			if data, err = AppendMetadataJSON([]byte("x"), p, 1795267200123); err != nil || json.Unmarshal(data[1:], &metadataJSON) != nil {
				t.Fatalf("metadata as JSON: %v in %s", err, data)
			}
			if metadataJSON.Kind != "PartialObjectMetadata" || metadataJSON.APIVersion != "meta.k8s.io/v1" {
				t.Errorf("metadata as JSON are of %+v", metadataJSON.TypeMeta)
			}
			if data, err = AppendMetadataProtobuf([]byte("x"), p, 1795267200123); err != nil || metadataProtobuf.Unmarshal(data[1:]) != nil {
				t.Fatalf("metadata as protobuf: %v in %q", err, data)
			}
			for form, got := range map[string]*metav1.ObjectMeta{"JSON": &metadataJSON.ObjectMeta, "protobuf": &metadataProtobuf.ObjectMeta} {
				if diff := cmp.Diff(&want.ObjectMeta, got); diff != "" {
					t.Errorf("metadata as %s: %s", form, diff)
				}
			}
			if data, err = JSON(p); err != nil || json.Unmarshal(data, &original) != nil || fmt.Sprintf("%q", original.ResourceVersion) != fmt.Sprintf("%q", meta.ResourceVersion) || !original.CreationTimestamp.Equal(&meta.CreationTimestamp) {
				t.Errorf("its own JSON: %v, %s", err, data)
			}
		})
	}
}
