package access

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// ownAnnotations are set by podconfigd and the kubelet, not by users. They stay in all forms:
// clients need them to tell static pods and mirror pods.
var ownAnnotations = append(slices.Clip(config.AddedAnnotations), v1.MirrorPodAnnotationKey, config.OwnMirrorAnnotationKey)

// redact returns the pod without what can have secrets, except for the listed annotations.
func redact(pod *v1.Pod, annotations []string) *v1.Pod {
	out := *pod
	out.ManagedFields = nil
	out.Annotations = only(pod.Annotations, ownAnnotations, annotations)
	out.Spec.InitContainers = each(pod.Spec.InitContainers, redactContainer)
	out.Spec.Containers = each(pod.Spec.Containers, redactContainer)
	out.Spec.EphemeralContainers = each(pod.Spec.EphemeralContainers, func(c *v1.EphemeralContainer) {
		common := v1.Container(c.EphemeralContainerCommon)
		redactContainer(&common)
		c.EphemeralContainerCommon = v1.EphemeralContainerCommon(common)
	})
	out.Spec.Volumes = each(pod.Spec.Volumes, redactVolume)
	if s := pod.Spec.SecurityContext; s != nil && s.WindowsOptions != nil {
		out.Spec.SecurityContext = new(*s)
		out.Spec.SecurityContext.WindowsOptions = redactWindows(s.WindowsOptions)
	}
	redactStatus(&out.Status)
	return &out
}

// only returns the annotations with these keys; nil if there are none.
func only(annotations map[string]string, lists ...[]string) map[string]string {
	var some map[string]string
	for _, list := range lists {
		for _, key := range list {
			if value, there := annotations[key]; there {
				if some == nil {
					some = make(map[string]string)
				}
				some[key] = value
			}
		}
	}
	return some
}

// each returns a copy of the list with a change of each element.
func each[T any](list []T, change func(*T)) []T {
	list = slices.Clone(list)
	for i := range list {
		change(&list[i])
	}
	return list
}

func redactContainer(c *v1.Container) {
	c.Command, c.Args = nil, nil
	c.Env = each(c.Env, func(e *v1.EnvVar) { e.Value = "" })
	c.LivenessProbe = redactProbe(c.LivenessProbe)
	c.ReadinessProbe = redactProbe(c.ReadinessProbe)
	c.StartupProbe = redactProbe(c.StartupProbe)
	if l := c.Lifecycle; l != nil {
		c.Lifecycle = new(*l)
		c.Lifecycle.PostStart = redactHandler(l.PostStart)
		c.Lifecycle.PreStop = redactHandler(l.PreStop)
	}
	if s := c.SecurityContext; s != nil && s.WindowsOptions != nil {
		c.SecurityContext = new(*s)
		c.SecurityContext.WindowsOptions = redactWindows(s.WindowsOptions)
	}
}

func redactProbe(p *v1.Probe) *v1.Probe {
	if p == nil {
		return nil
	}
	p = new(*p)
	p.Exec, p.HTTPGet = redactExec(p.Exec), redactGet(p.HTTPGet)
	return p
}

func redactHandler(h *v1.LifecycleHandler) *v1.LifecycleHandler {
	if h == nil {
		return nil
	}
	h = new(*h)
	h.Exec, h.HTTPGet = redactExec(h.Exec), redactGet(h.HTTPGet)
	return h
}

func redactExec(e *v1.ExecAction) *v1.ExecAction {
	if e == nil {
		return nil
	}
	return new(v1.ExecAction)
}

// redactGet removes the headers and the query.
func redactGet(g *v1.HTTPGetAction) *v1.HTTPGetAction {
	if g == nil {
		return nil
	}
	g = new(*g)
	g.HTTPHeaders = nil
	g.Path, _, _ = strings.Cut(g.Path, "?")
	return g
}

func redactWindows(w *v1.WindowsSecurityContextOptions) *v1.WindowsSecurityContextOptions {
	w = new(*w)
	w.GMSACredentialSpec = nil
	return w
}

// redactVolume removes what drivers and signers get, and URLs, which can have passwords.
func redactVolume(v *v1.Volume) {
	if s := v.CSI; s != nil {
		v.CSI = new(*s)
		v.CSI.VolumeAttributes = nil
	}
	if s := v.FlexVolume; s != nil {
		v.FlexVolume = new(*s)
		v.FlexVolume.Options = nil
	}
	if s := v.GitRepo; s != nil {
		v.GitRepo = new(*s)
		v.GitRepo.Repository = ""
	}
	if s := v.AzureDisk; s != nil {
		v.AzureDisk = new(*s)
		v.AzureDisk.DataDiskURI = ""
	}
	if s := v.ScaleIO; s != nil {
		v.ScaleIO = new(*s)
		v.ScaleIO.Gateway = ""
	}
	if s := v.Ephemeral; s != nil && s.VolumeClaimTemplate != nil {
		v.Ephemeral = new(*s)
		v.Ephemeral.VolumeClaimTemplate = new(*s.VolumeClaimTemplate)
		v.Ephemeral.VolumeClaimTemplate.Annotations = nil
		v.Ephemeral.VolumeClaimTemplate.ManagedFields = nil
	}
	if s := v.Projected; s != nil {
		v.Projected = new(*s)
		v.Projected.Sources = each(s.Sources, func(p *v1.VolumeProjection) {
			if c := p.PodCertificate; c != nil {
				// What a signer gets is left out. It is not in all versions of the API.
				p.PodCertificate = &v1.PodCertificateProjection{
					SignerName: c.SignerName, KeyType: c.KeyType, MaxExpirationSeconds: c.MaxExpirationSeconds,
					CredentialBundlePath: c.CredentialBundlePath, KeyPath: c.KeyPath, CertificateChainPath: c.CertificateChainPath,
				}
			}
		})
	}
}

// redactStatus removes the messages of container states: they have the end of logs, and parts
// of commands. The reasons stay.
func redactStatus(s *v1.PodStatus) {
	for _, list := range []*[]v1.ContainerStatus{&s.InitContainerStatuses, &s.ContainerStatuses, &s.EphemeralContainerStatuses} {
		*list = each(*list, func(c *v1.ContainerStatus) {
			redactState(&c.State)
			redactState(&c.LastTerminationState)
		})
	}
}

func redactState(s *v1.ContainerState) {
	if w := s.Waiting; w != nil {
		s.Waiting = new(*w)
		s.Waiting.Message = ""
	}
	if t := s.Terminated; t != nil {
		s.Terminated = new(*t)
		s.Terminated.Message = ""
	}
}

// metadata returns the names, UID, labels, node and status of the pod, and the names of its containers,
// which the status has too. Fields that the API gets later are not in it.
func metadata(pod *v1.Pod) *v1.Pod {
	out := &v1.Pod{Status: metadataStatus(&pod.Status)}
	out.Name, out.GenerateName, out.Namespace, out.UID, out.Labels = pod.Name, pod.GenerateName, pod.Namespace, pod.UID, pod.Labels
	out.CreationTimestamp, out.DeletionTimestamp = pod.CreationTimestamp, pod.DeletionTimestamp
	out.DeletionGracePeriodSeconds = pod.DeletionGracePeriodSeconds
	out.Annotations = only(pod.Annotations, ownAnnotations)
	out.Spec.NodeName = pod.Spec.NodeName
	nameOnly := func(c *v1.Container) { *c = v1.Container{Name: c.Name, RestartPolicy: c.RestartPolicy} }
	out.Spec.InitContainers = each(pod.Spec.InitContainers, nameOnly)
	out.Spec.Containers = each(pod.Spec.Containers, nameOnly)
	return out
}

// metadataStatus returns what says whether and where the pod runs. Messages have parts of commands,
// and the resources of evicted pods.
func metadataStatus(s *v1.PodStatus) v1.PodStatus {
	return v1.PodStatus{
		Phase: s.Phase, Reason: s.Reason, StartTime: s.StartTime, NominatedNodeName: s.NominatedNodeName,
		HostIP: s.HostIP, HostIPs: s.HostIPs, PodIP: s.PodIP, PodIPs: s.PodIPs,
		Conditions: each(s.Conditions, func(c *v1.PodCondition) {
			*c = v1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, LastProbeTime: c.LastProbeTime, LastTransitionTime: c.LastTransitionTime}
		}),
		InitContainerStatuses:      each(s.InitContainerStatuses, metadataContainer),
		ContainerStatuses:          each(s.ContainerStatuses, metadataContainer),
		EphemeralContainerStatuses: each(s.EphemeralContainerStatuses, metadataContainer),
	}
}

func metadataContainer(c *v1.ContainerStatus) {
	*c = v1.ContainerStatus{
		Name: c.Name, Image: c.Image, ImageID: c.ImageID, ContainerID: c.ContainerID, State: metadataState(c.State),
		LastTerminationState: metadataState(c.LastTerminationState), Ready: c.Ready, Started: c.Started, RestartCount: c.RestartCount,
	}
}

func metadataState(s v1.ContainerState) v1.ContainerState {
	out := v1.ContainerState{Running: s.Running}
	if w := s.Waiting; w != nil {
		out.Waiting = &v1.ContainerStateWaiting{Reason: w.Reason}
	}
	if t := s.Terminated; t != nil {
		out.Terminated = &v1.ContainerStateTerminated{
			ExitCode: t.ExitCode, Signal: t.Signal, Reason: t.Reason, StartedAt: t.StartedAt, FinishedAt: t.FinishedAt, ContainerID: t.ContainerID,
		}
	}
	return out
}
