package configfile

import (
	"io/fs"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/randfill"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/daemon"
)

var equalSelectors = cmp.Comparer(func(a, b labels.Selector) bool {
	return (a == nil) == (b == nil) && (a == nil || a.String() == b.String())
})

// Each field of a random configuration is the same after it was converted to the file and
// back.
func TestConversionKeepsEveryField(t *testing.T) {
	filler := randfill.New().NilChance(.3).NumElements(1, 3).Funcs(
		func(s *labels.Selector, c randfill.Continue) {
			if *s = nil; c.Bool() {
				*s, _ = labels.Parse("app=web,x in (a,b)")
			}
		},
		func(l *access.Level, c randfill.Continue) { *l = access.Level(c.Intn(int(access.Full) + 1)) },
		func(m *fs.FileMode, c randfill.Continue) { *m = fs.FileMode(c.Intn(0o1000)) },
		func(h *http.Header, c randfill.Continue) { *h = http.Header{"A": {c.String(5)}, "B-C": {"d", "e"}} },
		func(i *int, c randfill.Continue) { *i = c.Intn(1 << 31) },
	)
	filler.SkipFieldsWithPattern(regexp.MustCompile("^(InCluster|NotifyServiceManager|SocketActivation|Collectors)$")) // they are not in the file
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		var in, out daemon.Config
		filler.Fill(&in)
		for i := range in.FileSources { // they are required
			in.FileSources[i].Name += "n"
			in.FileSources[i].Path += "p"
		}
		for i := range in.HTTPSources {
			in.HTTPSources[i].Name += "n"
			in.HTTPSources[i].URL += "u"
		}
		in.RemovalBrake = strings.TrimLeft(in.RemovalBrake, "0123456789+-") // 05 is 5
		var file v1alpha1.PodConfigdConfiguration
		if err := scheme.Convert(&in, &file, nil); err != nil {
			t.Fatal(err)
		}
		if err := scheme.Convert(&file, &out, nil); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(in, out, equalSelectors, cmp.Comparer(func(a, b time.Duration) bool { return a == b })); diff != "" {
			t.Fatal(diff)
		}
	}
}
