package main

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

func TestPodwrite(t *testing.T) { analysistest.Run(t, analysistest.TestData(), podwrite, "podwrite") }

func TestCtxsend(t *testing.T) { analysistest.Run(t, analysistest.TestData(), ctxsend, "ctxsend") }
