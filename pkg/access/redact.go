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
		out.Spec.SecurityContext = changed(s, func(s *v1.PodSecurityContext) { s.WindowsOptions = changed(s.WindowsOptions, redactWindows) })
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

// changed returns a copy of a value with a change; nil for nil.
func changed[T any](value *T, change func(*T)) *T {
	if value == nil {
		return nil
	}
	value = new(*value)
	change(value)
	return value
}

func redactContainer(c *v1.Container) {
	c.Command, c.Args = nil, nil
	c.Env = each(c.Env, func(e *v1.EnvVar) { e.Value = "" })
	c.LivenessProbe = changed(c.LivenessProbe, redactProbe)
	c.ReadinessProbe = changed(c.ReadinessProbe, redactProbe)
	c.StartupProbe = changed(c.StartupProbe, redactProbe)
	c.Lifecycle = changed(c.Lifecycle, func(l *v1.Lifecycle) {
		l.PostStart = changed(l.PostStart, redactHandler)
		l.PreStop = changed(l.PreStop, redactHandler)
	})
	if s := c.SecurityContext; s != nil && s.WindowsOptions != nil {
		c.SecurityContext = changed(s, func(s *v1.SecurityContext) { s.WindowsOptions = changed(s.WindowsOptions, redactWindows) })
	}
}

func redactProbe(p *v1.Probe) {
	p.Exec, p.HTTPGet = changed(p.Exec, redactExec), changed(p.HTTPGet, redactGet)
}

func redactHandler(h *v1.LifecycleHandler) {
	h.Exec, h.HTTPGet = changed(h.Exec, redactExec), changed(h.HTTPGet, redactGet)
}

func redactExec(e *v1.ExecAction) { *e = v1.ExecAction{} }

// redactGet removes the headers and the query.
func redactGet(g *v1.HTTPGetAction) {
	g.HTTPHeaders = nil
	g.Path, _, _ = strings.Cut(g.Path, "?")
}

func redactWindows(w *v1.WindowsSecurityContextOptions) { w.GMSACredentialSpec = nil }

// redactVolume removes what drivers and signers get, and URLs, which can have passwords.
func redactVolume(v *v1.Volume) {
	v.CSI = changed(v.CSI, func(s *v1.CSIVolumeSource) { s.VolumeAttributes = nil })
	v.FlexVolume = changed(v.FlexVolume, func(s *v1.FlexVolumeSource) { s.Options = nil })
	v.GitRepo = changed(v.GitRepo, func(s *v1.GitRepoVolumeSource) { s.Repository = "" })
	v.AzureDisk = changed(v.AzureDisk, func(s *v1.AzureDiskVolumeSource) { s.DataDiskURI = "" })
	v.ScaleIO = changed(v.ScaleIO, func(s *v1.ScaleIOVolumeSource) { s.Gateway = "" })
	v.Ephemeral = changed(v.Ephemeral, func(s *v1.EphemeralVolumeSource) {
		s.VolumeClaimTemplate = changed(s.VolumeClaimTemplate, func(c *v1.PersistentVolumeClaimTemplate) {
			c.Annotations, c.ManagedFields = nil, nil
		})
	})
	v.Projected = changed(v.Projected, func(s *v1.ProjectedVolumeSource) {
		s.Sources = each(s.Sources, func(p *v1.VolumeProjection) {
			p.PodCertificate = changed(p.PodCertificate, redactCertificate)
		})
	})
}

// redactCertificate removes what a signer gets. It is not in all versions of the API.
func redactCertificate(c *v1.PodCertificateProjection) {
	*c = v1.PodCertificateProjection{
		SignerName: c.SignerName, KeyType: c.KeyType, MaxExpirationSeconds: c.MaxExpirationSeconds,
		CredentialBundlePath: c.CredentialBundlePath, KeyPath: c.KeyPath, CertificateChainPath: c.CertificateChainPath,
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
	s.Waiting = changed(s.Waiting, func(w *v1.ContainerStateWaiting) { w.Message = "" })
	s.Terminated = changed(s.Terminated, func(t *v1.ContainerStateTerminated) { t.Message = "" })
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
	return v1.ContainerState{
		Running: s.Running,
		Waiting: changed(s.Waiting, func(w *v1.ContainerStateWaiting) { *w = v1.ContainerStateWaiting{Reason: w.Reason} }),
		Terminated: changed(s.Terminated, func(t *v1.ContainerStateTerminated) {
			*t = v1.ContainerStateTerminated{
				ExitCode: t.ExitCode, Signal: t.Signal, Reason: t.Reason, StartedAt: t.StartedAt, FinishedAt: t.FinishedAt, ContainerID: t.ContainerID,
			}
		}),
	}
}
