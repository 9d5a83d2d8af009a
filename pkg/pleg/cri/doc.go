// Package cri is the container runtime of package pleg that speaks CRI.
package cri
