// SPDX-License-Identifier: Apache-2.0

// Package metadata holds the processor's type, stability and own metrics, as metadata.yaml describes them.
package metadata

import (
	"go.opentelemetry.io/collector/component"
)

// Type is the processor's name in a configuration.
var Type = component.MustNewType("toolverdict")

// ScopeName is the scope of the processor's own metrics.
const ScopeName = "github.com/acrux-otel/acrux-otel/collector-config/toolverdictprocessor"

// TracesStability is how settled the processor is.
const TracesStability = component.StabilityLevelAlpha
