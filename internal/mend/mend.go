package mend

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/printable"
)

// Manifest says what to do about a manifest that is neither accepted nor ignored.
func Manifest(m *v1alpha1.Manifest) []string {
	path := m.Path
	if m.State == v1alpha1.ManifestIgnored {
		return nil
	}
	if path == "" {
		return []string{"correct it in the list at the manifest URL"}
	}
	place := path
	if line := Line(m.Message); line > 0 {
		place = fmt.Sprintf("%s:%d", path, line)
	}
	check := "to check it before it is read, run podconfigctl validate " + printable.ShellWord(path)
	switch m.Reason {
	case "Empty":
		return []string{"write a v1 Pod to " + path + ", or remove the file"}
	case "TooLarge":
		return []string{"make " + path + " smaller: the limits of a pod are 1.5 MiB as JSON and 100,000 values"}
	case "NotAPod":
		return []string{"put one v1 Pod into " + path + ", and other objects into the apiserver", check}
	case "Forbidden":
		return []string{"remove the reference at " + place + ": a static pod can't refer to API objects", check}
	case "Duplicate":
		return []string{
			"rename the pod in " + path + ", or remove one of the manifests",
			"if it is a copy, let its name begin with a dot, or set --ignore-manifests of podconfigd",
		}
	case "LooksLikeCopy":
		return []string{"if " + path + " is no manifest, remove it, let its name begin with a dot, or set --ignore-manifests of podconfigd"}
	case "IsDirectory", "NotRegular":
		return []string{"replace " + path + " by a regular file, or remove it"}
	case "DanglingLink", "CyclicLink":
		return []string{"correct the symbolic link " + path + ", or remove it"}
	case "Unreadable":
		return []string{"let the user of podconfigd read " + path}
	}
	return []string{"correct " + place, check}
}

// ReleaseCommand returns the command that releases a held set, unless a newer one removes more pods.
func ReleaseCommand(source string, removes int) string {
	return fmt.Sprintf("podconfigctl release %s --removes=%d", source, removes)
}

// Source says what to do about a degraded source.
func Source(s *v1alpha1.SourceStatus) []string {
	switch {
	case s.Held != nil:
		return []string{"to apply the set that is held, run " + ReleaseCommand(s.Name, s.Held.Removes) + "; otherwise put back what is missing in the source"}
	case !s.Degraded:
		return nil
	case s.File != nil:
		return []string{"make " + s.File.Path + " readable again; an empty directory removes the pods"}
	case s.HTTP != nil:
		return []string{"check what the server answers at " + s.HTTP.URL}
	case s.API != nil:
		return []string{"check the apiserver " + s.API.Server + ", and the credentials in --kubeconfig of podconfigd"}
	}
	return nil
}

// position matches the file and the line at the start of the message of a fault.
var position = regexp.MustCompile(`^[^:]*:([0-9]+): `)

// Line returns the line in the message of a fault; 0 if there is none.
func Line(message string) int {
	found := position.FindStringSubmatch(message)
	if found == nil {
		return 0
	}
	line, err := strconv.Atoi(found[1])
	if err != nil {
		return 0
	}
	return line
}
