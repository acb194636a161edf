// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"bytes"
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed rules.yaml
var rulesYAML []byte

// classRule says what an exception class, a value of error.type or a number means.
type classRule struct {
	outcome   outcome // other than error: control flow
	errorType string
	errorCode string // empty: the class name
	retryable ternary
	number    numberKind
	status    int64
	provider  bool
}

// ends tells whether the class is control flow: it ends a call without failing it.
func (c *classRule) ends() bool { return c != nil && c.outcome != outcomeError }

// numberKind says which number on the span completes a class that only names a family of errors.
type numberKind uint8

const (
	numberNone numberKind = iota
	numberHTTP
	numberJSONRPC
)

type source struct {
	name       string
	attribute  slot
	value      string
	toolName   []slot
	callID     []field
	arguments  []field
	trimPrefix []string
	trimSuffix []string
}

type field struct {
	slot slot
	path string
}

type failedField struct {
	slot  slot
	value string
}

// results are the shapes that one attribute may hold.
type results struct {
	slot   slot
	shapes []*resultShape
}

// ownWork are the values of one attribute that say that a span begins work of its own.
type ownWork struct {
	attribute slot
	values    []string
}

type resultShape struct {
	is   []expectation
	has  []string
	text string
}

type expectation struct {
	path   string
	text   string // compared where the field is a string
	truth  bool   // compared where it is a bool
	isBool bool
}

// rules is rules.yaml in the form that is fast to ask. It is read-only once compiled.
type rules struct {
	keys           keyTable
	sources        []source
	sourceMask     slotSet
	jsonRPCMask    slotSet // sources whose error.type holds JSON-RPC numbers
	agentMask      slotSet
	ownWork        []ownWork
	ownWorkMask    slotSet
	failed         []failedField
	httpStatus     []slot
	jsonRPC        []slot
	grpc           []slot
	results        []results
	classes        map[string]*classRule // exceptions and control flow
	errorTypes     map[string]*classRule // classes, and values that are no class names
	other          string
	retryable      map[int64]ternary
	providerCodes  map[int64]string
	jsonRPCCodes   map[int64]*classRule
	grpcCodes      map[int64]*classRule
	modules        []string
	notProvider    []string
	providers      map[string]*classRule
	asked          []keyRow
	answered       []keyRow
	messageAsked   messageRow
	messageAnswer  messageRow
	neverAnswered  []string
	httpCodes      [600]string
	providerOthers *classRule
}

var loadRules = sync.OnceValues(func() (*rules, error) {
	var file ruleFile
	decoder := yaml.NewDecoder(bytes.NewReader(rulesYAML))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		return nil, fmt.Errorf("rules.yaml: %w", err)
	}
	return compile(&file)
})

// class is the rule of an exception class, or nil for the fallback.
func (r *rules) class(name string) *classRule {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "*"), "builtins.")
	if rule := r.classes[name]; rule != nil {
		return rule
	}
	return r.provider(name)
}

// errorTypeValue is the rule of a value of error.type, or nil.
func (r *rules) errorTypeValue(value string) *classRule {
	if rule := r.errorTypes[value]; rule != nil {
		return rule
	}
	return r.class(value)
}

func (r *rules) provider(name string) *classRule {
	for _, module := range r.modules {
		if !strings.HasPrefix(name, module) {
			continue
		}
		if slices.Contains(r.notProvider, name) {
			return nil
		}
		if rule := r.providers[className(name)]; rule != nil {
			return rule
		}
		return r.providerOthers
	}
	return nil
}

// mayRetry says whether a call that was answered with this HTTP status may succeed later.
func (r *rules) mayRetry(status int64) ternary {
	if known, ok := r.retryable[status]; ok {
		return known
	}
	if status >= 400 && status < 500 {
		return no
	}
	return unknown
}

func (r *rules) frameworkAnswers(tool string) bool {
	for _, pattern := range r.neverAnswered {
		if ok, _ := path.Match(pattern, tool); ok {
			return true
		}
	}
	return false
}
