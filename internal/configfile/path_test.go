package configfile

import (
	"encoding/json"
	"testing"
)

func TestDrop(t *testing.T) {
	for _, test := range []struct{ values, path, dropped, left string }{
		{`{"a":1,"b":2}`, "a", "a", `{"b":2}`},
		{`{"a":{"b":1,"c":2}}`, "a.b", "a.b", `{"a":{"c":2}}`},
		{`{"a":[{"b":[1,2],"c":3}]}`, "a[0].b[1]", "a[0].b", `{"a":[{"c":3}]}`},
		{`{"a":[{"b":{"c":1}}]}`, "a[0].b.c", "a[0].b.c", `{"a":[{"b":{}}]}`},
		{`{"a":[1,2]}`, "a[1]", "a", `{}`},
		{`{"h":{"X.Y":1,"X":2}}`, "h[X.Y]", "h[X.Y]", `{"h":{"X":2}}`},
		{`{"h":{"X.Y":[1],"X":2}}`, "h[X.Y][0]", "h[X.Y]", `{"h":{"X":2}}`},
		{`{"a":1}`, "b", "", `{"a":1}`},
	} {
		var values any
		if err := json.Unmarshal([]byte(test.values), &values); err != nil {
			t.Fatal(err)
		}
		dropped := drop(values, test.path)
		left, err := json.Marshal(values)
		if err != nil || dropped != test.dropped || string(left) != test.left {
			t.Errorf("%s without %s: dropped %q, left %s", test.values, test.path, dropped, left)
		}
	}
}
