// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.yaml.in/yaml/v3"

	"github.com/acrux-otel/acrux-otel/collector-config/toolverdictprocessor/internal/metadata"
)

// The factory is the collector's idea of a traces processor that changes what it is given.
func TestFactory(t *testing.T) {
	factory := NewFactory()
	assert.Equal(t, "toolverdict", factory.Type().String())
	require.NoError(t, componenttest.CheckConfigStruct(factory.CreateDefaultConfig()))
	set := processortest.NewNopSettings(metadata.Type)
	p, err := factory.CreateTraces(context.Background(), set, factory.CreateDefaultConfig(), consumertest.NewNop())
	require.NoError(t, err)
	assert.True(t, p.Capabilities().MutatesData)
	_, err = factory.CreateLogs(context.Background(), set, factory.CreateDefaultConfig(), consumertest.NewNop())
	assert.Error(t, err)
}

// Batches may come at the same time.
func TestBatchesMayComeAtTheSameTime(t *testing.T) {
	sink := new(consumertest.TracesSink)
	p, err := NewFactory().CreateTraces(context.Background(), processortest.NewNopSettings(metadata.Type), defaults(), sink)
	require.NoError(t, err)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 50 {
				td := traceOf(calls(8, func(int) attrs { return hash("h") })...)
				assert.NoError(t, p.ConsumeTraces(context.Background(), td))
			}
		})
	}
	wait.Wait()
	require.Len(t, sink.AllTraces(), 400)
	for _, td := range sink.AllTraces() {
		assert.Equal(t, int64(8), get(spansOf(td)[0], attrStormCalls))
	}
}

// An empty batch is passed on.
func TestAnEmptyBatchIsPassedOn(t *testing.T) {
	assert.Zero(t, run(t, defaults(), ptrace.NewTraces()).SpanCount())
	td := ptrace.NewTraces()
	td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty()
	assert.Zero(t, run(t, defaults(), td).SpanCount())
}

// The processor's own metrics count what it saw and did.
func TestItsOwnMetricsCountWhatItDid(t *testing.T) {
	tel := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, tel.Shutdown(context.Background())) })
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	p, err := NewFactory().CreateTraces(context.Background(), set, defaults(), consumertest.NewNop())
	require.NoError(t, err)
	first := agent
	first.attributes = agent.attributes.with(attrs{attrTraceOutcome: "ok"})
	require.NoError(t, p.ConsumeTraces(context.Background(), traceOf(first,
		sp{name: "a", id: 2, parent: 1, status: statusOK, attributes: openinference.with(attrs{"error.type": "tool_error", "tool.name": strings.Repeat("x", maxName+1)})},
		sp{name: "b", id: 3, parent: 1, attributes: genai.with(attrs{"http.response.status_code": "503"})},
		sp{name: "b", id: 3, parent: 1, attributes: genai},
	)))

	check := func(name string, points ...metricdata.DataPoint[int64]) {
		t.Helper()
		got, err := tel.GetMetric("otelcol_processor_toolverdict_" + name)
		require.NoError(t, err)
		want := metricdata.Sum[int64]{DataPoints: points, Temporality: metricdata.CumulativeTemporality, IsMonotonic: true}
		metricdatatest.AssertEqual(t, want, got.Data.(metricdata.Sum[int64]), metricdatatest.IgnoreTimestamp(), metricdatatest.IgnoreExemplars())
	}
	point := func(n int64, of ...attribute.KeyValue) metricdata.DataPoint[int64] {
		return metricdata.DataPoint[int64]{Value: n, Attributes: attribute.NewSet(of...)}
	}
	check("spans", point(4))
	check("spans_normalised",
		point(1, attribute.String("source", "openinference")), point(2, attribute.String("source", "genai")))
	check("verdicts", point(2, attribute.String("outcome", "ok")), point(1, attribute.String("outcome", "error")))
	check("ok_left", point(1))
	check("traces_rolled_up", point(1, attribute.String("outcome", "error"), attribute.Bool("partial", false)))
	check("disagreements", point(1))
	check("malformed", point(3))
	checkMetadata(t, tel)
}

// checkMetadata holds what metadata.yaml says of each metric to what is made: no generator does it here.
func checkMetadata(t *testing.T, tel *componenttest.Telemetry) {
	t.Helper()
	data, err := os.ReadFile("metadata.yaml")
	require.NoError(t, err)
	var file struct {
		Type      string
		Telemetry struct {
			Metrics map[string]struct{ Description, Unit string }
		}
	}
	require.NoError(t, yaml.Unmarshal(data, &file))
	assert.Equal(t, metadata.Type.String(), file.Type)
	assert.Len(t, file.Telemetry.Metrics, 7)
	for name, described := range file.Telemetry.Metrics {
		got, err := tel.GetMetric("otelcol_" + name)
		require.NoError(t, err)
		assert.Equal(t, described.Description+" [Alpha]", got.Description)
		assert.Equal(t, described.Unit, got.Unit)
	}
}
