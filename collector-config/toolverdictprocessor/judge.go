// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// evidence is all that a foreign tool span says of how its call ended.
type evidence struct {
	painted   ptrace.StatusCode
	owner     string // an errorType that the span's owner wrote
	warned    string // its warning.type
	class     string // of the exception that ended the call
	message   string
	escaped   bool
	rule      *classRule // of the class
	value     string     // of error.type
	valueRule *classRule
	status    int64 // HTTP
	declared  bool  // a framework's own field says that the call failed
	text      string
}

func (n *normaliser) gather(span ptrace.Span) evidence {
	f := &n.facts
	e := evidence{
		painted: span.Status().Code(), owner: f.text(slotErrorType), warned: f.text(slotWarningType),
		value: f.text(slotSemconvError), status: n.httpStatus(), declared: n.fieldSaysFailed(),
	}
	if event, ok := lastException(span); ok {
		e.class, e.message, e.escaped = n.exception(event)
		e.rule = n.rules.class(e.class)
	}
	if e.painted == ptrace.StatusCodeOk && e.rule.ends() {
		e.class, e.rule = "", nil // the application says that it went on
	}
	if e.value != "" {
		e.valueRule = n.rules.errorTypeValue(e.value)
	}
	if !e.declared && !e.broke() {
		e.text, e.declared = n.resultSaysFailed()
	}
	return e
}

// judge is the verdict of a foreign tool span: whether it failed by what says so outright, then of what
// kind by the first evidence that the tables know.
func (n *normaliser) judge(span ptrace.Span) verdict {
	e := n.gather(span)
	switch ended := e.ended(); {
	case ended != outcomeError:
		return verdict{outcome: ended}
	case e.failed():
		return n.failure(&e, span.Status().Message())
	case e.warned != "":
		return n.warning(e.owner, e.warned)
	}
	return verdict{outcome: outcomeOK}
}

// ended is control flow, which is no failure, whatever an instrumentation painted it; else error.
func (e *evidence) ended() outcome {
	for _, r := range [...]*classRule{e.rule, e.valueRule} {
		if r.ends() {
			return r.outcome
		}
	}
	return outcomeError
}

// broke tells whether the instrumentation says that the call ended with an error. An exception alone does
// not: it may have been handled.
func (e *evidence) broke() bool {
	return e.painted == ptrace.StatusCodeError || e.value != "" ||
		(e.escaped && e.painted != ptrace.StatusCodeOk)
}

func (e *evidence) failed() bool {
	if e.broke() || e.declared {
		return true
	}
	if e.warned != "" {
		return false
	}
	return isErrorType(e.owner) || (e.painted == ptrace.StatusCodeUnset && e.status >= 400)
}

func (n *normaliser) failure(e *evidence, description string) verdict {
	v := n.kind(e)
	v.outcome = outcomeError
	v.detail = firstText(n.facts.text(slotErrorDetail), e.message, className(e.class))
	if v.detail == "" {
		v.detail = firstText(e.text, description, v.errorCode)
	}
	return v
}

// kind classifies: the owner's word, then what the tables know of the exception, of error.type, of an
// HTTP status and of a protocol's number; then the exception's class; then a declared failure.
func (n *normaliser) kind(e *evidence) verdict {
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
