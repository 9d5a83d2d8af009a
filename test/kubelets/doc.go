// Package kubelets compares the pods that podconfigd makes of manifests with those of the kubelets of each
// minor version: whether a manifest is accepted, the UID, the name, and every other field.
//
// The results of the kubelets are recorded. "make conformance" compares with their code, over more
// manifests.
package kubelets
