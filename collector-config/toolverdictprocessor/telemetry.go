// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/acrux-otel/acrux-otel/collector-config/toolverdictprocessor/internal/metadata"
)

// counts adds a batch's figures to the collector's own metrics. Every label is bounded and made once.
type counts struct {
	telemetry *metadata.TelemetryBuilder
	sources   []metric.MeasurementOption
	outcomes  [outcomeCount]metric.MeasurementOption
	rolledUp  [outcomeCount][2]metric.MeasurementOption
}

func newCounts(telemetry *metadata.TelemetryBuilder, r *rules) *counts {
	c := &counts{telemetry: telemetry}
	for i := range r.sources {
		c.sources = append(c.sources, labels(attribute.String("source", r.sources[i].name)))
	}
	for o := outcomeOK; o < outcomeCount; o++ {
		c.outcomes[o] = labels(attribute.String("outcome", o.String()))
		for partial := range 2 {
			c.rolledUp[o][partial] = labels(
				attribute.String("outcome", o.String()), attribute.Bool("partial", partial == 1))
		}
	}
	return c
}

func labels(of ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(of...))
}

func (c *counts) add(ctx context.Context, w *workspace) {
	t, n := c.telemetry, &w.normaliser
	add(ctx, t.ProcessorToolverdictSpans, w.spans)
	add(ctx, t.ProcessorToolverdictOkLeft, n.okLeft)
	add(ctx, t.ProcessorToolverdictMalformed, n.malformed+w.rollup.malformed)
	add(ctx, t.ProcessorToolverdictDisagreements, w.rollup.disagreements)
	for i, spans := range n.normalised {
		add(ctx, t.ProcessorToolverdictSpansNormalised, spans, c.sources[i])
	}
	for o := outcomeOK; o < outcomeCount; o++ {
		add(ctx, t.ProcessorToolverdictVerdicts, n.normalisedTo[o], c.outcomes[o])
		for partial, traces := range w.rolledUp[o] {
			add(ctx, t.ProcessorToolverdictTracesRolledUp, traces, c.rolledUp[o][partial])
		}
	}
}

func add(ctx context.Context, counter metric.Int64Counter, n int64, of ...metric.AddOption) {
	if n != 0 {
		counter.Add(ctx, n, of...)
	}
}
