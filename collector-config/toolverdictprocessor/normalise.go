// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// ours is the source of a call whose own instrumentation wrote its outcome.
const ours = -1

// call is what the rollup needs to know of one tool span.
type call struct {
	verdict
	entry    int32 // its span, in the group
	source   int   // index of rules.sources, or ours
	tool     string
	id       string
	args     argsKey
	attempts int64

	// between the spans of one group
	layerOf int32 // the call that this span is a layer of, or none
	last    int32 // its own layer that ended last, or none
	repeats int64 // how often that layer was made
}

// normaliser reads tool spans, and writes verdicts on those that have none. Not safe for concurrent use.
type normaliser struct {
	rules        *rules
	write        bool
	rollup       bool // arguments are asked for
	overrideOK   bool
	maxResult    int
	facts        facts
	malformed    int64 // spans with an attribute of a wrong type or an absurd length
	okLeft       int64 // failed calls whose span says OK
	normalised   []int64
	normalisedTo [outcomeCount]int64
}

// read looks at one span. It reports whether the span is a tool call, and whether it belongs to an
// agent's trace at all. Where it is a foreign tool call, its verdict is written on it.
func (n *normaliser) read(span ptrace.Span, c *call) (tool, agent bool) {
	f := &n.facts
	n.rules.keys.scan(span.Attributes(), f)
	if f.present.has(slotOutcome) {
		n.readOurs(span, c)
		n.count()
		return true, true
	}
	if f.present&n.rules.sourceMask != 0 {
		if source := n.source(); source >= 0 {
			n.readForeign(span, source, c)
			n.count()
			return n.write, true
		}
	}
	n.count()
	return false, f.model || f.present&n.rules.agentMask != 0
}

func (n *normaliser) count() {
	if n.facts.odd {
		n.malformed++
	}
}

func (n *normaliser) source() int {
	for i := range n.rules.sources {
		s := &n.rules.sources[i]
		if n.facts.present.has(s.attribute) && n.facts.text(s.attribute) == s.value {
			return i
		}
	}
	return -1
}

// readOurs takes the verdict that the span carries; it is never written anew.
func (n *normaliser) readOurs(span ptrace.Span, c *call) {
	f := &n.facts
	*c = call{source: ours, tool: f.name(slotToolName), id: f.text(slotCallID)}
	if c.tool == "" {
		c.tool = text(strings.TrimPrefix(span.Name(), operationExecuteTool+" "), maxName)
	}
	c.outcome = parseOutcome(f.text(slotOutcome))
	if c.outcome == outcomeNone {
		f.odd = true
		c.outcome = outcomeOK
		if span.Status().Code() == ptrace.StatusCodeError {
			c.outcome = outcomeError
		}
	}
	c.errorType, c.errorCode = f.name(slotErrorType), f.name(slotErrorCode)
	c.detail = f.text(slotErrorDetail)
	c.retryable = f.truth(slotRetryable)
	c.attempts, _ = f.integer(slotAttempts)
	if n.rollup {
		c.args = n.arguments(nil)
	}
	// What this processor wrote earlier, in another tier, is as weak or strong as it was there.
	if from := f.text(slotNormalisedFrom); from != "" {
		for i := range n.rules.sources {
			if n.rules.sources[i].name == from {
				c.source = i
				if n.rollup {
					c.args = n.arguments(&n.rules.sources[i])
				}
			}
		}
	}
}

func (n *normaliser) readForeign(span ptrace.Span, index int, c *call) {
	s := &n.rules.sources[index]
	*c = call{source: index, tool: n.toolName(span, s), id: n.callID(s)}
	if n.rollup {
		c.args = n.arguments(s)
	}
	if !n.write {
		return
	}
	c.verdict = n.judge(span)
	n.writeIdentity(span, s, c)
	n.writeVerdict(span, &c.verdict)
	n.normalised[index]++
	n.normalisedTo[c.outcome]++
}

func (n *normaliser) toolName(span ptrace.Span, s *source) string {
	if name := n.facts.name(slotToolName); name != "" {
		return name
	}
	for _, slot := range s.toolName {
		if name := n.facts.name(slot); name != "" {
			return name
		}
	}
	name := span.Name()
	for _, prefix := range s.trimPrefix {
		name = strings.TrimPrefix(name, prefix)
	}
	for _, suffix := range s.trimSuffix {
		name = strings.TrimSuffix(name, suffix)
	}
	if len(name) > maxName {
		n.facts.odd = true
	}
	return text(name, maxName)
}

func (n *normaliser) callID(s *source) string {
	if id := n.facts.name(slotCallID); id != "" {
		return id
	}
	for _, field := range s.callID {
		if id := n.field(field); id.Type == gjson.String && id.Str != "" && len(id.Str) <= maxName {
			return id.Str
		}
	}
	return ""
}

// field reads a JSON field of an attribute, or the attribute itself where it names no path.
func (n *normaliser) field(from field) gjson.Result {
	if !n.facts.present.has(from.slot) || n.facts.values[from.slot].Type() != pcommon.ValueTypeStr {
		return gjson.Result{}
	}
	value := n.facts.values[from.slot].Str()
	if from.path == "" {
		return gjson.Result{Type: gjson.String, Str: value, Raw: value}
	}
	if len(value) > n.maxResult || value == "" || value[0] != '{' {
		return gjson.Result{}
	}
	return gjson.Get(value, from.path)
}

// judge is the verdict of a foreign tool span: whether it failed by what says so outright, then of what
// kind by the first evidence that the tables know.
func (n *normaliser) judge(span ptrace.Span) verdict {
	f := &n.facts
	var class, message string
	escaped := false
	status := span.Status().Code()
	if event, ok := lastException(span); ok {
		class, message, escaped = n.exception(event)
	}
	rule := n.rules.class(class)
	value := f.text(slotSemconvError)
	valueRule := (*classRule)(nil)
	if value != "" {
		valueRule = n.rules.errorTypeValue(value)
	}
	failed := status == ptrace.StatusCodeError || value != "" || (escaped && status != ptrace.StatusCodeOk)

	// Control flow is no failure, whatever an instrumentation painted it.
	if status != ptrace.StatusCodeOk {
		for _, r := range [...]*classRule{rule, valueRule} {
			if r != nil && r.outcome != outcomeError {
				return verdict{outcome: r.outcome}
			}
		}
	}

	declaredText, declared := "", n.fieldSaysFailed()
	if !failed && !declared {
		declaredText, declared = n.resultSaysFailed()
	}
	httpStatus := n.httpStatus()
	owner := f.text(slotErrorType)
	warned := f.text(slotWarningType)
	if !failed && !declared {
		switch {
		case warned != "":
			return n.warning(owner, warned)
		case isErrorType(owner):
		case status == ptrace.StatusCodeUnset && httpStatus >= 400:
		default:
			return verdict{outcome: outcomeOK}
		}
	}

	v := n.kind(evidence{
		owner: owner, class: class, rule: rule, value: value, valueRule: valueRule,
		status: httpStatus, declared: declared,
	})
	v.outcome = outcomeError
	v.detail = firstText(f.text(slotErrorDetail), message, className(class))
	if v.detail == "" {
		v.detail = firstText(declaredText, span.Status().Message(), v.errorCode)
	}
	return v
}

// evidence is all that a failed span says of its failure.
type evidence struct {
	owner     string // an errorType that the span's owner wrote
	class     string // of the exception
	rule      *classRule
	value     string // of error.type
	valueRule *classRule
	status    int64
	declared  bool
}

// kind classifies: the owner's word, then what the tables know of the exception, of error.type, of an
// HTTP status and of a protocol's number; then the exception's class; then a declared failure.
func (n *normaliser) kind(e evidence) verdict {
	f := &n.facts
	status, protocol := e.status, n.protocolAttribute()
	if number, ok := integerText(e.value); ok {
		switch {
		case protocol == 0 && n.isProtocol(number):
			protocol = number
		case status == 0 && number >= 400 && number <= 599:
			status = number
		}
	}

	switch {
	case isErrorType(e.owner):
		v := verdict{
			errorType: e.owner, errorCode: slug(f.text(slotErrorCode)), status: status,
			retryable: f.truth(slotRetryable),
		}
		if v.retryable == unknown && e.owner == typeHTTPStatus {
			v.retryable = n.rules.mayRetry(status)
		}
		return v
	case e.rule != nil:
		return n.byClass(e.rule, e.class, status, protocol)
	case e.valueRule != nil && e.valueRule.errorType != typeToolDeclared:
		return n.byClass(e.valueRule, e.value, status, protocol)
	case status >= 400:
		return n.byStatus(status)
	case protocol != 0:
		return n.byProtocol(protocol)
	}
	if rule := n.grpcRule(); rule != nil {
		return verdict{errorType: rule.errorType, errorCode: rule.errorCode, retryable: rule.retryable}
	}
	code := codeSpanError
	switch {
	case e.class != "":
		code = snake(className(e.class))
	case e.valueRule != nil:
		code = e.valueRule.errorCode
	case e.declared:
		code = codeToolError
	case e.value == n.rules.other && e.value != "":
		code = codeUnspecified
	case e.value != "":
		code = snake(className(e.value))
	}
	return verdict{errorType: typeToolDeclared, errorCode: code}
}

func (n *normaliser) byClass(rule *classRule, class string, status, protocol int64) verdict {
	if rule.provider {
		return n.byProvider(rule, class, status)
	}
	if rule.number == numberJSONRPC && protocol != 0 {
		return n.byProtocol(protocol)
	}
	if rule.number == numberHTTP && status >= 400 {
		return n.byStatus(status)
	}
	if rule.status != 0 {
		return n.byStatus(rule.status)
	}
	v := verdict{errorType: rule.errorType, errorCode: rule.errorCode, retryable: rule.retryable}
	if v.errorCode == "" {
		v.errorCode = snake(className(class))
	}
	return v
}

func (n *normaliser) byProvider(rule *classRule, class string, status int64) verdict {
	if status < 400 {
		status = rule.status
	}
	v := verdict{errorType: typeProviderError, errorCode: rule.errorCode, retryable: rule.retryable, status: status}
	switch {
	case rule.errorCode != "":
	case status >= 400:
		v.retryable = n.rules.mayRetry(status)
		if v.errorCode = n.rules.providerCodes[status]; v.errorCode == "" {
			v.errorCode = n.rules.httpCodes[status]
		}
	default:
		v.errorCode = snake(className(class))
	}
	return v
}

func (n *normaliser) byStatus(status int64) verdict {
	return verdict{
		errorType: typeHTTPStatus, errorCode: n.rules.httpCodes[status], status: status,
		retryable: n.rules.mayRetry(status),
	}
}

func (n *normaliser) byProtocol(number int64) verdict {
	if rule := n.rules.jsonRPCCodes[number]; rule != nil {
		return verdict{errorType: rule.errorType, errorCode: rule.errorCode, retryable: rule.retryable}
	}
	digits := strings.TrimPrefix(strconv.FormatInt(number, 10), "-")
	return verdict{errorType: typeProviderError, errorCode: "jsonrpc_" + digits}
}

// protocolAttribute is the JSON-RPC error code of an attribute of its own, or 0.
func (n *normaliser) protocolAttribute() int64 {
	for _, s := range n.rules.jsonRPC {
		if !n.facts.present.has(s) {
			continue
		}
		switch value := n.facts.values[s]; value.Type() {
		case pcommon.ValueTypeInt:
			return value.Int()
		case pcommon.ValueTypeStr:
			if parsed, ok := integerText(value.Str()); ok {
				return parsed
			}
		default:
			n.facts.odd = true
		}
	}
	return 0
}

// isProtocol tells whether a number in error.type is a JSON-RPC code: outside MCP only those that JSON-RPC
// reserves, on an MCP span all but HTTP statuses that the table does not know as codes.
func (n *normaliser) isProtocol(number int64) bool {
	if n.facts.present&n.rules.jsonRPCMask == 0 {
		return number >= -32768 && number <= -32000
	}
	return n.rules.jsonRPCCodes[number] != nil || number < 100 || number > 599
}

func (n *normaliser) grpcRule() *classRule {
	for _, s := range n.rules.grpc {
		if code, ok := n.facts.integer(s); ok {
			return n.rules.grpcCodes[code]
		}
	}
	return nil
}

// httpStatus is a typed HTTP status, 100-599, or 0.
func (n *normaliser) httpStatus() int64 {
	for _, s := range n.rules.httpStatus {
		status, ok := n.facts.integer(s)
		switch {
		case !ok:
		case status >= 100 && status <= 599:
			return status
		default:
			n.facts.odd = true
		}
	}
	return 0
}

func (n *normaliser) warning(owner, warned string) verdict {
	f := &n.facts
	v := verdict{outcome: outcomeWarning, errorType: owner, errorCode: f.text(slotErrorCode)}
	if !isErrorType(owner) {
		v.errorType = typeToolDeclared
	}
	if v.errorCode == "" {
		v.errorCode = warned
	}
	v.errorCode = slug(v.errorCode)
	v.detail = firstText(f.text(slotErrorDetail), f.text(slotWarningMessage), v.errorCode)
	return v
}

func (n *normaliser) fieldSaysFailed() bool {
	for _, field := range n.rules.failed {
		if n.facts.present.has(field.slot) && n.facts.text(field.slot) == field.value {
			return true
		}
	}
	return false
}

// resultSaysFailed reads the field by which a serialised framework object says that the call failed.
func (n *normaliser) resultSaysFailed() (string, bool) {
	for i := range n.rules.results {
		r := &n.rules.results[i]
		if !n.facts.present.has(r.slot) || n.facts.values[r.slot].Type() != pcommon.ValueTypeStr {
			continue
		}
		value := n.facts.values[r.slot].Str()
		// "error", "isError", "is_error": without these letters no shape fits.
		if len(value) > n.maxResult || len(value) == 0 || value[0] != '{' || !strings.Contains(value, "rror") {
			continue
		}
		for _, shape := range r.shapes {
			if shape.fits(value) {
				return gjson.Get(value, shape.text).String(), true
			}
		}
	}
	return "", false
}

func (s *resultShape) fits(json string) bool {
	for i := range s.is {
		want := &s.is[i]
		got := gjson.Get(json, want.path)
		switch {
		case want.isBool:
			if !got.IsBool() || got.Bool() != want.truth {
				return false
			}
		case got.Type != gjson.String || got.Str != want.text:
			return false
		}
	}
	for _, p := range s.has {
		if !gjson.Get(json, p).Exists() {
			return false
		}
	}
	return true
}

// lastException is the event of the exception that ended the call: a retried call records one for each try.
func lastException(span ptrace.Span) (ptrace.SpanEvent, bool) {
	events := span.Events()
	for i := events.Len() - 1; i >= 0; i-- {
		if event := events.At(i); event.Name() == eventException {
			return event, true
		}
	}
	return ptrace.SpanEvent{}, false
}

func (n *normaliser) exception(event ptrace.SpanEvent) (class, message string, escaped bool) {
	for key, value := range event.Attributes().All() {
		switch key {
		case attrExceptionType:
			class = n.eventText(value)
		case attrExceptionMessage:
			message = n.eventText(value)
		case attrExceptionEscaped:
			// Python's SDK writes the strings "True" and "False".
			escaped = value.Type() == pcommon.ValueTypeBool && value.Bool() ||
				value.Type() == pcommon.ValueTypeStr && strings.EqualFold(value.Str(), "true")
		}
	}
	if len(class) > maxClass {
		n.facts.odd = true
		class = class[len(class)-maxClass:]
	}
	return class, message, escaped
}

func (n *normaliser) eventText(value pcommon.Value) string {
	if value.Type() != pcommon.ValueTypeStr {
		n.facts.odd = true
		return ""
	}
	return value.Str()
}

// writeIdentity gives the span the GenAI names that the rest of the pipeline groups by, where it lacks them.
func (n *normaliser) writeIdentity(span ptrace.Span, s *source, c *call) {
	attributes := span.Attributes()
	room := 5
	if c.errorType != "" {
		room += 6
	}
	attributes.EnsureCapacity(attributes.Len() + room)
	present := n.facts.present
	attributes.PutStr(attrNormalisedFrom, s.name)
	if !present.has(slotOperation) {
		attributes.PutStr(attrOperationName, operationExecuteTool)
	}
	if !present.has(slotToolName) && c.tool != "" {
		attributes.PutStr(attrToolName, c.tool)
	}
	if !present.has(slotCallID) && c.id != "" {
		attributes.PutStr(attrToolCallID, c.id)
	}
}

// writeVerdict puts a verdict on a foreign span. error.type stays as its instrumentation wrote it.
func (n *normaliser) writeVerdict(span ptrace.Span, v *verdict) {
	attributes := span.Attributes()
	attributes.PutStr(attrOutcome, v.outcome.String())
	if v.outcome != outcomeError && v.outcome != outcomeWarning {
		return
	}
	v.detail = text(v.detail, maxDetail)
	attributes.PutStr(attrErrorType, v.errorType)
	attributes.PutStr(attrErrorCode, v.errorCode)
	attributes.PutStr(attrErrorDetail, v.detail)
	if v.outcome == outcomeWarning {
		return
	}
	if _, exists := attributes.Get(attrSemconvError); !exists {
		attributes.PutStr(attrSemconvError, v.errorType)
	}
	if v.retryable != unknown {
		attributes.PutBool(attrRetryable, v.retryable == yes)
	}
	if v.status != 0 {
		if _, exists := attributes.Get(attrHTTPStatus); !exists {
			attributes.PutInt(attrHTTPStatus, v.status)
		}
	}
	n.paint(span, v)
}

// paint makes a failed call's status ERROR. OK is the application's last word and stays, unless the
// operator knows that an instrumentation puts it there unasked.
func (n *normaliser) paint(span ptrace.Span, v *verdict) {
	status := span.Status()
	switch status.Code() {
	case ptrace.StatusCodeOk:
		if !n.overrideOK {
			n.okLeft++
			return
		}
	case ptrace.StatusCodeError:
		return
	}
	status.SetCode(ptrace.StatusCodeError)
	status.SetMessage(text(v.detail, maxDescription))
}

func firstText(candidates ...string) string {
	for _, c := range candidates {
		if c != "" {
			return c
		}
	}
	return ""
}

// integerText parses a short decimal integer and nothing else.
func integerText(s string) (int64, bool) {
	if s == "" || len(s) > 11 || (s[0] != '-' && !isDigit(s[0])) {
		return 0, false
	}
	number, err := strconv.ParseInt(s, 10, 64)
	return number, err == nil
}
