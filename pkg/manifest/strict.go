package manifest

import (
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/podconfigd/podconfigd/internal/yamlfault"
	"github.com/podconfigd/podconfigd/pkg/manifest/internal/plainyaml"
)

var podType = reflect.TypeFor[v1.Pod]()

// text is the text of a manifest. It returns the line of a field.
type text struct{ *yamlfault.Text }

func newText(file string, data []byte) *text { return &text{yamlfault.New(file, data)} }

// item returns the text of an item of a list.
func (t *text) item(i int) *text { return &text{t.Item(i)} }

// toJSON converts the manifest to JSON, as the kubelet does, and returns its duplicate
// keys, and the keys and values that unexpectedly become booleans.
//
// The strict conversion gives the same JSON as the kubelet's or fails. So it is tried
// first. It costs a lookup for each key, and a second conversion would cost as much as
// the first. Its error has a text for each duplicate, so it is not used for a large
// manifest.
func (t *text) toJSON() (data []byte, duplicates yamlfault.Findings, err error) {
	isJSON := utilyaml.IsJSONBuffer(t.Data) // the decoder finds its duplicates
	if !isJSON {
		if err := checkYAML(t.Data); err != nil {
			return nil, yamlfault.Findings{}, err
		}
	}
	if err := t.checkAliases(); err != nil {
		return nil, yamlfault.Findings{}, err
	}
	large := len(t.Data) > yamlfault.MaxLength
	if !isJSON && !large {
		if data, plain := plainyaml.ToJSON(t.Data); plain { // it has no duplicate, and no boolean of YAML 1.1
			return data, yamlfault.Findings{}, nil
		}
		if data, err = yaml.YAMLToJSONStrict(t.Data); err == nil {
			return data, t.Booleans(), nil
		}
	}
	data, err = utilyaml.ToJSON(t.Data)
	switch {
	case err != nil:
		return nil, yamlfault.Findings{}, t.refuse(ReasonNotYAML, t.NotYAML(err))
	case isJSON || large:
		return data, yamlfault.Findings{}, nil
	}
	found := t.Duplicates("; only the last value counts")
	found.AddAll(t.Booleans())
	return data, found, nil
}

// strictFaults returns the faults for the errors of the strict decoder: unknown fields
// and, in JSON, duplicate fields.
func (t *text) strictFaults(errs []error, json []byte) yamlfault.Findings {
	found := t.Unknown(json, podType, ", ignored")
	for _, err := range errs {
		strict, ok := err.(interface{ FieldPath() string })
		switch {
		case !ok:
			found.Add(func() Fault { return Fault{Message: err.Error()} })
		case !strings.HasPrefix(err.Error(), "unknown field"):
			found.Add(func() Fault { return t.At(strict.FieldPath(), "duplicate key") })
		}
	}
	return found
}
