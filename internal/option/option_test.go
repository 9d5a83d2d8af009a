package option

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type inner struct {
	Kind *string `json:"kind,omitempty"`
}

type configuration struct {
	Period *metav1.Duration `json:"period,omitempty"`
	Count  *int32           `json:"count,omitempty"`
	Rate   int32            `json:"rate,omitempty"`
	On     *bool            `json:"on,omitempty"`
	Items  []string         `json:"items,omitempty"`
	Inner  struct {
		inner `json:",inline"` //nolint:revive // the tag of Kubernetes types
		Name  string           `json:"name,omitempty"`
	} `json:"inner,omitzero"`
}

var table = Table{
	{Path: "period", Flag: "period", Default: "20s", Min: "1s", Max: "1m"},
	{Path: "count", Flag: "count", Default: "5", Min: "1", Max: "9", Reload: "some"},
	{Path: "rate", Min: "0", Max: "10"},
	{Path: "on", Default: "true"},
	{Path: "items"},
	{Path: "inner.kind", Flag: "kind", Default: "a", Values: []string{"a", "b", "c"}},
}

func TestDefaults(t *testing.T) {
	c := configuration{Count: new(int32(7))}
	table.SetDefaults(&c)
	if c.Period.Duration != 20*time.Second || *c.Count != 7 || !*c.On || *c.Inner.Kind != "a" {
		t.Errorf("got %+v", c)
	}
	if faults := table.Check(&c); len(faults) > 0 {
		t.Errorf("the defaults have faults: %v", faults)
	}
}

func TestCheck(t *testing.T) {
	c := configuration{Period: &metav1.Duration{}, Count: new(int32(10)), Rate: -1, On: new(false)}
	c.Inner.Kind = new("d")
	want := []Fault{
		{"period", "0s is too short: expected 1s or more"},
		{"count", "10 is too large: expected 9 or less"},
		{"rate", "-1 is too small: expected 0 or more"},
		{"inner.kind", `"d" is unknown: expected a, b or c`},
	}
	if diff := cmp.Diff(want, table.Check(&c)); diff != "" {
		t.Error(diff)
	}
	c.Period.Duration = time.Hour
	if got := table.Check(&c)[0]; got.Message != "1h0m0s is too long: expected 1m0s or less" {
		t.Errorf("got %v", got)
	}
}

func TestSameAndCopy(t *testing.T) {
	a, b := configuration{Count: new(int32(1)), Items: []string{}}, configuration{Count: new(int32(1))}
	for i := range table {
		if !table[i].Same(&a, &b) {
			t.Errorf("%s differs", table[i].Path)
		}
	}
	b.Items, b.Inner.Kind = []string{"x"}, new("b")
	for i := range table {
		if same := table[i].Same(&a, &b); same != (i < 4) {
			t.Errorf("%s is the same: %t", table[i].Path, same)
		}
		table[i].Copy(&a, &b)
	}
	if diff := cmp.Diff(a.Items, b.Items); diff != "" || *a.Inner.Kind != "b" {
		t.Errorf("%s, kind %s", diff, *a.Inner.Kind)
	}
}

func TestTheOptionOfAPath(t *testing.T) {
	for path, want := range map[string]string{"items[1].name": "[1].name", "inner.kind": "", "period": "", "periods": "none", "inner": "none"} {
		t.Run(path, func(t *testing.T) {
			o, rest := table.Of(path)
			if (o == nil) != (want == "none") || o != nil && rest != want {
				t.Errorf("%s: %v, %q", path, o, rest)
			}
		})
	}
	if flag := table.Flag("inner.kind"); flag != "kind" {
		t.Errorf("the flag is %q", flag)
	}
}

// A field that the table has and the type does not is a table that was not generated again.
func TestAPathWithoutAField(t *testing.T) {
	defer func() {
		if got := recover(); got != "type configuration has no field gone: run make generate" {
			t.Errorf("got %v", got)
		}
	}()
	(&Option{Path: "gone"}).In(&configuration{})
}
