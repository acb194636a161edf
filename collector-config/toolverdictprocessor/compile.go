// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
)

func compile(file *ruleFile) (*rules, error) {
	r := &rules{
		keys:           newKeyTable(),
		classes:        map[string]*classRule{},
		errorTypes:     map[string]*classRule{},
		other:          file.ErrorTypeOther,
		retryable:      map[int64]ternary{},
		providerCodes:  file.HTTP.ProviderCodes,
		jsonRPCCodes:   map[int64]*classRule{},
		grpcCodes:      map[int64]*classRule{},
		modules:        file.Providers.Modules,
		notProvider:    file.Providers.Not,
		providers:      map[string]*classRule{},
		asked:          file.Asked,
		answered:       file.Answered,
		messageAsked:   file.Messages.Asked,
		messageAnswer:  file.Messages.Answered,
		neverAnswered:  file.NeverAnswered,
		providerOthers: &classRule{outcome: outcomeError, errorType: typeProviderError, number: numberHTTP, provider: true},
	}
	for status := int64(100); status < 600; status++ {
		r.httpCodes[status] = "http_" + strconv.FormatInt(status, 10)
	}
	for _, status := range file.HTTP.Retryable {
		r.retryable[status] = yes
	}
	for _, status := range file.HTTP.NotRetryable {
		r.retryable[status] = no
	}
	return r, errors.Join(
		r.compileEvidence(file), r.compileClasses(file), r.compileProviders(file), r.compileModelKeys(file))
}

func (r *rules) compileEvidence(file *ruleFile) error {
	var errs []error
	for _, row := range file.Sources {
		s := source{
			name: row.Name, attribute: r.keys.slot(row.Attribute), value: row.Value,
			callID: r.fields(row.CallID), arguments: r.fields(row.Arguments),
			trimPrefix: row.TrimPrefix, trimSuffix: row.TrimSuffix,
		}
		for _, name := range row.ToolName {
			s.toolName = append(s.toolName, r.keys.slot(name))
		}
		r.sources = append(r.sources, s)
		r.sourceMask.add(s.attribute)
		if row.JSONRPC {
			r.jsonRPCMask.add(s.attribute)
		}
	}
	for _, name := range file.AgentAttributes {
		r.agentMask.add(r.keys.slot(name))
	}
	for _, row := range file.OwnWork {
		s := r.keys.slot(row.Attribute)
		r.ownWork = append(r.ownWork, ownWork{s, row.Values})
		r.ownWorkMask.add(s)
	}
	for _, row := range file.Failed {
		r.failed = append(r.failed, failedField{r.keys.slot(row.Attribute), row.Value})
	}
	r.httpStatus = r.slots(file.HTTPStatus)
	r.jsonRPC = r.slots(file.JSONRPC)
	r.grpc = r.slots(file.GRPC)
	for _, row := range file.Results {
		shape := &resultShape{has: row.Has, text: row.Text}
		for p, want := range row.Is {
			switch want := want.(type) {
			case string:
				shape.is = append(shape.is, expectation{path: p, text: want})
			case bool:
				shape.is = append(shape.is, expectation{path: p, truth: want, isBool: true})
			default:
				errs = append(errs, fmt.Errorf("rules.yaml: results %q: %s is %v; expected a string or a bool", row.Name, p, want))
			}
		}
		for _, name := range row.Attributes {
			r.addResult(r.keys.slot(name), shape)
		}
	}
	return errors.Join(errs...)
}

func (r *rules) addResult(s slot, shape *resultShape) {
	for i := range r.results {
		if r.results[i].slot == s {
			r.results[i].shapes = append(r.results[i].shapes, shape)
			return
		}
	}
	r.results = append(r.results, results{s, []*resultShape{shape}})
}

func (r *rules) compileClasses(file *ruleFile) error {
	var errs []error
	for name, types := range file.ControlFlow {
		o := parseOutcome(name)
		if o != outcomeCancelled && o != outcomeInterrupted && o != outcomeClosed {
			errs = append(errs, fmt.Errorf("rules.yaml: control_flow: %q; expected cancelled, interrupted or closed", name))
		}
		for _, class := range types {
			r.classes[class] = &classRule{outcome: o}
		}
	}
	for _, row := range file.Exceptions {
		rule, err := row.compile()
		errs = append(errs, err)
		for _, class := range row.Types {
			if r.classes[class] != nil {
				errs = append(errs, fmt.Errorf("rules.yaml: exceptions: %q is listed twice", class))
			}
			r.classes[class] = rule
		}
	}
	for class, rule := range r.classes {
		r.errorTypes[class] = rule
	}
	named := func(rows map[int64]verdictRow, into map[int64]*classRule) {
		for number, row := range rows {
			rule, err := classRow{verdictRow: row}.compile()
			into[number] = rule
			errs = append(errs, err)
		}
	}
	named(file.JSONRPCCodes, r.jsonRPCCodes)
	named(file.GRPCCodes, r.grpcCodes)
	for value, row := range file.ErrorTypes {
		rule, err := classRow{verdictRow: row}.compile()
		r.errorTypes[value] = rule
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (r *rules) compileProviders(file *ruleFile) error {
	var errs []error
	for _, row := range file.Providers.Classes {
		if row.ErrorType == "" {
			row.ErrorType = typeProviderError
		}
		rule, err := row.compile()
		errs = append(errs, err)
		if rule.errorType == typeProviderError {
			rule.provider, rule.number = true, numberHTTP
		}
		for _, class := range row.Types {
			r.providers[class] = rule
		}
	}
	for _, class := range file.Providers.Bare {
		rule := r.providers[class]
		if rule == nil {
			rule = r.providerOthers
		}
		r.classes[class], r.errorTypes[class] = rule, rule
	}
	return errors.Join(errs...)
}

func (r *rules) compileModelKeys(file *ruleFile) error {
	var errs []error
	for _, row := range slices.Concat(file.Asked, file.Answered) {
		if row.Prefix == "" || row.Suffix == "" {
			errs = append(errs, fmt.Errorf("rules.yaml: asked, answered: %+v; expected a prefix and a suffix", row))
			continue
		}
		r.keys.prefix(row.Prefix)
	}
	r.keys.whole(file.Messages.Asked.Attribute)
	r.keys.whole(file.Messages.Answered.Attribute)
	for _, pattern := range file.NeverAnswered {
		if _, err := path.Match(pattern, ""); err != nil {
			errs = append(errs, fmt.Errorf("rules.yaml: never_answered: %q: %w", pattern, err))
		}
	}
	return errors.Join(errs...)
}

func (row classRow) compile() (*classRule, error) {
	rule := &classRule{
		outcome: outcomeError, errorType: row.ErrorType, errorCode: row.ErrorCode, status: row.Status,
	}
	if row.Retryable != nil {
		rule.retryable = ternaryOf(*row.Retryable)
	}
	var errs []error
	switch row.Number {
	case "":
	case typeHTTPStatus:
		rule.number = numberHTTP
	case "json_rpc":
		rule.number = numberJSONRPC
	default:
		errs = append(errs, fmt.Errorf("rules.yaml: number: %q; expected http_status or json_rpc", row.Number))
	}
	if !isErrorType(row.ErrorType) {
		errs = append(errs, fmt.Errorf("rules.yaml: errorType: %q; expected one of the six", row.ErrorType))
	}
	if row.ErrorCode != "" && slug(row.ErrorCode) != row.ErrorCode {
		errs = append(errs, fmt.Errorf("rules.yaml: errorCode: %q; expected [a-z0-9_]+", row.ErrorCode))
	}
	if row.Status != 0 && (row.Status < 400 || row.Status > 599) {
		errs = append(errs, fmt.Errorf("rules.yaml: status: %d; expected 400-599", row.Status))
	}
	return rule, errors.Join(errs...)
}

func (r *rules) slots(names []string) []slot {
	out := make([]slot, len(names))
	for i, name := range names {
		out[i] = r.keys.slot(name)
	}
	return out
}

func (r *rules) fields(rows []fieldRow) []field {
	out := make([]field, len(rows))
	for i, row := range rows {
		out[i] = field{r.keys.slot(row.Attribute), row.Path}
	}
	return out
}
