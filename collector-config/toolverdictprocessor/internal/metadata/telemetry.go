// SPDX-License-Identifier: Apache-2.0

package metadata

import (
	"errors"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/metric"
)

// TelemetryBuilder holds the processor's own metrics.
type TelemetryBuilder struct {
	ProcessorToolverdictDisagreements   metric.Int64Counter
	ProcessorToolverdictMalformed       metric.Int64Counter
	ProcessorToolverdictOkLeft          metric.Int64Counter
	ProcessorToolverdictSpans           metric.Int64Counter
	ProcessorToolverdictSpansNormalised metric.Int64Counter
	ProcessorToolverdictTracesRolledUp  metric.Int64Counter
	ProcessorToolverdictVerdicts        metric.Int64Counter
}

// NewTelemetryBuilder makes the metrics that metadata.yaml describes.
func NewTelemetryBuilder(set component.TelemetrySettings) (*TelemetryBuilder, error) {
	meter := set.MeterProvider.Meter(ScopeName)
	b := &TelemetryBuilder{}
	var errs []error
	counter := func(to *metric.Int64Counter, name, unit, description string) {
		made, err := meter.Int64Counter("otelcol_processor_toolverdict_"+name,
			metric.WithDescription(description), metric.WithUnit(unit))
		*to = made
		errs = append(errs, err)
	}
	counter(&b.ProcessorToolverdictDisagreements, "disagreements", "{traces}",
		"Traces whose root had a summary that differs from the processor's, and was kept [Alpha]")
	counter(&b.ProcessorToolverdictMalformed, "malformed", "{spans}",
		"Spans with an attribute of a wrong type or an absurd length, a duplicate or empty span id, or a cycle of parents; all are passed on [Alpha]")
	counter(&b.ProcessorToolverdictOkLeft, "ok_left", "{spans}",
		"Failed tool calls whose span status OK was left as it was [Alpha]")
	counter(&b.ProcessorToolverdictSpans, "spans", "{spans}",
		"Spans seen [Alpha]")
	counter(&b.ProcessorToolverdictSpansNormalised, "spans_normalised", "{spans}",
		"Foreign tool spans that were given a verdict, by source [Alpha]")
	counter(&b.ProcessorToolverdictTracesRolledUp, "traces_rolled_up", "{traces}",
		"Traces summed up on their root, by outcome and by whether spans were missing [Alpha]")
	counter(&b.ProcessorToolverdictVerdicts, "verdicts", "{spans}",
		"Verdicts written on foreign tool spans, by outcome [Alpha]")
	return b, errors.Join(errs...)
}
