package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// stage is the final stage of a Dockerfile.
type stage struct {
	from   string
	config components.ImageConfig
	copies []copied
}

// copied is a COPY instruction.
type copied struct {
	from, chown      string // the stage, and the owner
	source, destined string
}

// finalStage reads the last stage of a Dockerfile. Instructions that podconfigd's does not have
// are errors.
func finalStage(dockerfile string) (*stage, error) {
	var s *stage
	for _, line := range instructions(dockerfile) {
		word, rest, _ := strings.Cut(line, " ")
		if word == "FROM" {
			s = &stage{from: strings.TrimSpace(rest)}
		}
		if s == nil && word == "ARG" {
			continue // the name of a base
		}
		if s == nil {
			return nil, fmt.Errorf("%s before FROM", word)
		}
		if err := s.add(word, strings.TrimSpace(rest)); err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
	}
	if s == nil {
		return nil, errors.New("no stage")
	}
	return s, nil
}

// instructions are the lines without comments, and with their continuations.
func instructions(dockerfile string) (lines []string) {
	continues := false
	for line := range strings.Lines(dockerfile) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		text, more := strings.CutSuffix(line, "\\")
		if continues {
			lines[len(lines)-1] += " " + strings.TrimSpace(text)
		} else {
			lines = append(lines, strings.TrimSpace(text))
		}
		continues = more
	}
	return lines
}

func (s *stage) add(word, rest string) error {
	switch word {
	case "FROM", "ARG", "WORKDIR", "RUN": // RUN has no effect in a final stage from scratch: it has no shell
	case "LABEL":
		s.config.Labels = make(map[string]string)
		for _, pair := range fields(rest) {
			key, value, _ := strings.Cut(pair, "=")
			s.config.Labels[key] = value
		}
	case "ENV":
		s.config.Env = append(s.config.Env, fields(rest)...)
	case "USER":
		s.config.User = rest
	case "ENTRYPOINT":
		return json.Unmarshal([]byte(rest), &s.config.Entrypoint)
	case "COPY":
		return s.copy(fields(rest))
	default:
		return errors.New("unknown instruction")
	}
	return nil
}

func (s *stage) copy(words []string) error {
	var c copied
	for len(words) > 0 && strings.HasPrefix(words[0], "--") {
		switch flag, value, _ := strings.Cut(words[0], "="); flag {
		case "--from":
			c.from = value
		case "--chown":
			c.chown = value
		default:
			return fmt.Errorf("unknown flag %s", flag)
		}
		words = words[1:]
	}
	if len(words) != 2 {
		c.source = strings.Join(words, " ") // of another stage
	} else {
		c.source, c.destined = words[0], words[1]
	}
	s.copies = append(s.copies, c)
	return nil
}

// fields splits at spaces outside of double quotes, and removes the quotes.
func fields(s string) []string {
	quoted := false
	words := strings.FieldsFunc(s, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	})
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], `"`, "")
	}
	return words
}

// image returns the image of the Dockerfile's final stage. What the Dockerfile builds comes from
// here: the programs from the Go tool, and the rest of the other stage from this machine.
func image(t *testing.T) (components.ImageConfig, []components.ImageFile) {
	t.Helper()
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := finalStage(string(data))
	if err != nil {
		t.Fatal(err)
	}
	if s.from != "scratch" {
		t.Fatalf("the final stage is from %s: the test has only scratch", s.from)
	}
	built := map[string]string{
		"/out/podconfigd": testutil.MustProgram(t, ".", "./cmd/podconfigd"), "/out/podconfigctl": testutil.MustProgram(t, ".", "./cmd/podconfigctl"),
		"/out/run/podconfigd": "", "/out/lib/podconfigd": "",
		"/etc/ssl/certs/ca-certificates.crt": "/etc/ssl/certs/ca-certificates.crt",
	}
	var files []components.ImageFile
	for _, c := range s.copies {
		source := filepath.Join(root, c.source)
		if c.from != "" {
			var known bool
			if source, known = built[c.source]; !known {
				t.Fatalf("the test does not know how %s is built", c.source)
			}
		}
		files = append(files, c.file(t, source))
	}
	return s.config, files
}

// file returns what is copied from a path of this machine. An empty path is an empty directory.
func (c copied) file(t *testing.T, source string) components.ImageFile {
	t.Helper()
	f := components.ImageFile{Name: strings.TrimPrefix(path.Clean(c.destined), "/"), Mode: os.ModeDir | 0o755}
	if c.chown != "" {
		user, group, _ := strings.Cut(c.chown, ":")
		var err, groupErr error
		f.UID, err = strconv.Atoi(user)
		f.GID, groupErr = strconv.Atoi(group)
		if err := errors.Join(err, groupErr); err != nil {
			t.Fatal(err)
		}
	}
	if source == "" {
		return f
	}
	info, err := os.Stat(source)
	if err != nil {
		t.Fatal(err)
	}
	f.Mode = info.Mode()
	if f.Data, err = os.ReadFile(source); err != nil {
		t.Fatal(err)
	}
	return f
}
