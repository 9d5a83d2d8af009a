package kubernetes

import "testing"

func rights(t *testing.T, c *cluster) {}
