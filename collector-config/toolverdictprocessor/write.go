// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"go.opentelemetry.io/collector/pdata/ptrace"
)

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
	if _, exists := attributes.Get(attrRetryable); !exists && v.retryable != unknown {
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
