package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/podconfigd/podconfigd/internal/socketpath"
)

// SetDefaults_PodConfigdConfiguration sets the fields that are left out.
//
//nolint:revive // defaulter-gen requires the name
func SetDefaults_PodConfigdConfiguration(obj *PodConfigdConfiguration) {
	setDuration(&obj.FileCheckFrequency, 20*time.Second)
	setDuration(&obj.HTTPCheckFrequency, 20*time.Second)
	setDefault(&obj.EventRecordQPS, 50)
	setDefault(&obj.EventBurst, 100)
	setDefault(&obj.KubeletVersion, "auto")
	setDefault(&obj.KubeletPresence, "auto")
	setDefault(&obj.ContainerRuntimeEvents, true)
	setDuration(&obj.PLEGRelistPeriod, time.Second)
	setDuration(&obj.PLEGRelistThreshold, 3*time.Minute)
	setDefault(&obj.RuntimeStatus, true)
	setDuration(&obj.SyncFrequency, time.Minute)
	setDefault(&obj.Socket, socketpath.Default())
	setDefault(&obj.SocketMode, "0660")
	setDuration(&obj.Authentication.Webhook.CacheTTL, 2*time.Minute)
	setDuration(&obj.Authorization.Webhook.CacheAuthorizedTTL, 5*time.Minute)
	setDuration(&obj.Authorization.Webhook.CacheUnauthorizedTTL, 30*time.Second)
	setDefault(&obj.MaxSubscribers, 1024)
	setDefault(&obj.MaxSubscribersPerProcess, 256)
	setDefault(&obj.JournalMaxUpdates, 8192)
	setDefault(&obj.JournalMaxBytes, 16<<20)
	setDuration(&obj.StateMaxAge, 7*24*time.Hour)
	setDefault(&obj.StateMaxBytes, 64<<20)
	logsapi.SetRecommendedLoggingConfiguration(&obj.Logging)
}

func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func setDuration(field **metav1.Duration, value time.Duration) {
	setDefault(field, metav1.Duration{Duration: value})
}
