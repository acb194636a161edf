// SPDX-License-Identifier: Apache-2.0

// Package toolverdictprocessor gives the tool spans of every instrumentation one vocabulary of verdicts
// (outcome, errorType, errorCode) and sums a trace up on its root span. What it recognises and how it
// classifies is data, in rules.yaml; it keeps no state beyond the spans that it is handed together.
package toolverdictprocessor
