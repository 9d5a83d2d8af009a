package server

import (
	"net/http"
	"slices"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	respond.JSON(w, s.statusFor(s.statusScope(r.Context())))
}

// hiddenError replaces an error that can quote what the client may not see.
const hiddenError = "the access rules hide the error"

// statusFor returns the status without what the client may not see. It counts the pods that the
// client sees.
func (s *Server) statusFor(scope *view.Scope) v1alpha1.Status {
	status := s.opts.Status()
	grant := scope.Grant()
	if grant == nil {
		return status
	}
	state, _ := scope.State(view.Selector{}, nil) // with an error, it has no pods
	pods := state.Pods
	levels := make(map[string]map[podID]access.Level)
	for _, p := range pods {
		if levels[p.Source] == nil {
			levels[p.Source] = make(map[podID]access.Level)
		}
		levels[p.Source][podID{p.Object.Namespace, p.Object.Name, string(p.Object.UID)}] = grant.Of(p.Source, p.Object).Level()
	}
	status.Pods = len(pods)
	status.Sources = slices.Clone(status.Sources)
	for i := range status.Sources {
		source := &status.Sources[i]
		seen := levels[source.Name]
		source.Pods = len(seen)
		source.LastError = hide(source.LastError)
		if f := source.File; f != nil {
			source.File = new(*f)
			source.File.Manifests, source.File.ManifestsOmitted = verdicts(f.Manifests, seen), nil
		}
		if h := source.HTTP; h != nil {
			source.HTTP = new(*h)
			source.HTTP.Manifests, source.HTTP.ManifestsOmitted = verdicts(h.Manifests, seen), nil
		}
	}
	if r := status.Runtime; r != nil {
		status.Runtime = new(*r)
		status.Runtime.LastError, status.Runtime.EventsError = hide(r.LastError), hide(r.EventsError)
	}
	if m := status.MirrorPods; m != nil {
		status.MirrorPods = mirrorStatusFor(m, grant, pods)
	}
	uid := scope.Subject().UID
	status.Subscribers = slices.DeleteFunc(slices.Clone(status.Subscribers), func(other v1alpha1.Subscriber) bool {
		return uid == nil || other.UID == nil || *other.UID != *uid
	})
	return status
}

func hide(err string) string {
	if err == "" {
		return ""
	}
	return hiddenError
}

// podID identifies a pod of a source, also if two have the same UID.
type podID struct{ namespace, name, uid string }

// verdicts returns the verdicts on the manifests of the pods in seen. The file is part of those
// that are not reduced to their metadata. The texts can quote the manifest, so they are part of
// those that are seen in full.
func verdicts(all []v1alpha1.Manifest, seen map[podID]access.Level) []v1alpha1.Manifest {
	some := make([]v1alpha1.Manifest, 0, len(seen))
	for _, m := range all {
		level := seen[podID{m.Namespace, m.Name, m.UID}]
		if level == access.None {
			continue
		}
		if level < access.Redacted {
			m.Path = ""
		}
		if level < access.Full {
			m.Message, m.Warnings = "", nil
		}
		some = append(some, m)
	}
	return some
}
