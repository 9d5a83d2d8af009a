package docs

import (
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// namesOfOthers are names in the text that are not ours: of the kubelet, of Kubernetes, of Go and of other projects.
var namesOfOthers = strings.Fields(`
	AppArmor BestEffort EventRecorder EventSourceObjectSpamFilter FileDescriptorName GitHub JavaScript NewCSV PodMonitor
	PodsAPI RetryWatcher ToSelectableFields ToSystemd IsBelowBufferPoolingThreshold LoadFromFile ServeMux
	NewLengthDelimitedFrameWriter NewTooLargeResourceVersionError ValidateListOptions AddFieldLabelConversionsFor HandlePodCleanups
	addConversionFuncs asPartialObjectMetadata asPartialObjectMetadataList eventedPlegRelistPeriod
	makeEvent printNamespace printNode printPod procFS recordEvent retryAfterSeconds groupName CamelCase
	NewProvider MethodByName SetEmulationVersion allocatedResources observedGeneration`)

var (
	// quoted is a name between backquotes, and camel a name of Go in a comment.
	quoted = regexp.MustCompile("`([A-Za-z_][\\w.]*)(?:\\(\\))?`")
	camel  = regexp.MustCompile(`\b(?:[a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w+)`)
)

// source returns the words of all sources, for Go files without their comments, and the comments of the Go files
// that are no tests.
func source(t *testing.T) (words map[string]bool, comments map[string]string) {
	t.Helper()
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	list := exec.CommandContext(t.Context(), "git", "ls-files", "*.go", "*.proto", "*.yaml", "*.json", "*.sh", "*.txtar", "*.py", "*.service", "*Makefile")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	words, comments = map[string]bool{}, map[string]string{}
	word := regexp.MustCompile(`[A-Za-z_]\w*`)
	add := func(text string) {
		for _, w := range word.FindAllString(text, -1) {
			words[w] = true
		}
	}
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue // it is removed, and not committed yet
		}
		if !strings.HasSuffix(name, ".go") {
			add(string(data))
			continue
		}
		var s scanner.Scanner
		s.Init(token.NewFileSet().AddFile(name, -1, len(data)), data, nil, scanner.ScanComments)
		for _, kind, text := s.Scan(); kind != token.EOF; _, kind, text = s.Scan() {
			if kind != token.COMMENT {
				add(text)
			} else if !strings.HasSuffix(name, "_test.go") && !strings.HasSuffix(name, ".pb.go") && !strings.Contains(text, "kubelet: ") && !strings.Contains(text, "kubectl: ") {
				comments[name] += text + "\n"
			}
		}
	}
	return words, comments
}

// A name of Go in the documentation or in a comment exists. What was renamed is renamed there too.
func TestNamesExist(t *testing.T) {
	words, comments := source(t)
	check := func(file, name string) {
		if !words[name] && !slices.Contains(namesOfOthers, name) {
			t.Errorf("%s: there is no %s", file, name)
		}
	}
	for page, text := range testutil.Pages(t) {
		if strings.HasSuffix(page, "CHANGELOG.md") {
			continue // it has names of earlier versions
		}
		for _, match := range quoted.FindAllStringSubmatch(text, -1) {
			if name := match[1][strings.LastIndex(match[1], ".")+1:]; camel.FindString(name) == name && name != "" {
				check(page, name)
			}
		}
	}
	for file, text := range comments {
		for _, name := range camel.FindAllString(text, -1) {
			check(file, name)
		}
	}
}
