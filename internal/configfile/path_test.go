package configfile

import (
	"encoding/json"
	"testing"
)

func TestDrop(t *testing.T) {
	for name, test := range map[string]struct{ values, path, dropped, left string }{
		"field":                          {`{"a":1,"b":2}`, "a", "a", `{"b":2}`},
		"field of an object":             {`{"a":{"b":1,"c":2}}`, "a.b", "a.b", `{"a":{"c":2}}`},
		"element of a list":              {`{"a":[{"b":[1,2],"c":3}]}`, "a[0].b[1]", "a[0].b", `{"a":[{"c":3}]}`},
		"field below an element":         {`{"a":[{"b":{"c":1}}]}`, "a[0].b.c", "a[0].b.c", `{"a":[{"b":{}}]}`},
		"last element":                   {`{"a":[1,2]}`, "a[1]", "a", `{}`},
		"key with a dot":                 {`{"h":{"X.Y":1,"X":2}}`, "h[X.Y]", "h[X.Y]", `{"h":{"X":2}}`},
		"element below a key with a dot": {`{"h":{"X.Y":[1],"X":2}}`, "h[X.Y][0]", "h[X.Y]", `{"h":{"X":2}}`},
		"unknown field":                  {`{"a":1}`, "b", "", `{"a":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			var values any
			if err := json.Unmarshal([]byte(test.values), &values); err != nil {
				t.Fatal(err)
			}
			dropped := drop(values, test.path)
			left, err := json.Marshal(values)
			if err != nil || dropped != test.dropped || string(left) != test.left {
				t.Errorf("%s without %s: dropped %q, left %s", test.values, test.path, dropped, left)
			}
		})
	}
}
