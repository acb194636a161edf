// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

// The shape of rules.yaml.
type (
	ruleFile struct {
		Sources         []sourceRow           `yaml:"sources"`
		AgentAttributes []string              `yaml:"agent_attributes"`
		OwnWork         []ownWorkRow          `yaml:"own_work"`
		Failed          []failedRow           `yaml:"failed"`
		HTTPStatus      []string              `yaml:"http_status"`
		JSONRPC         []string              `yaml:"json_rpc"`
		GRPC            []string              `yaml:"grpc"`
		Results         []resultRow           `yaml:"results"`
		ErrorTypes      map[string]verdictRow `yaml:"error_types"`
		ErrorTypeOther  string                `yaml:"error_type_other"`
		HTTP            struct {
			Retryable     []int64          `yaml:"retryable"`
			NotRetryable  []int64          `yaml:"not_retryable"`
			ProviderCodes map[int64]string `yaml:"provider_codes"`
		} `yaml:"http"`
		JSONRPCCodes map[int64]verdictRow `yaml:"json_rpc_codes"`
		GRPCCodes    map[int64]verdictRow `yaml:"grpc_codes"`
		ControlFlow  map[string][]string  `yaml:"control_flow"`
		Exceptions   []classRow           `yaml:"exceptions"`
		Providers    struct {
			Modules []string   `yaml:"modules"`
			Not     []string   `yaml:"not"`
			Bare    []string   `yaml:"bare"`
			Classes []classRow `yaml:"classes"`
		} `yaml:"providers"`
		Asked    []keyRow `yaml:"asked"`
		Answered []keyRow `yaml:"answered"`
		Messages struct {
			Asked    messageRow `yaml:"asked"`
			Answered messageRow `yaml:"answered"`
		} `yaml:"messages"`
		NeverAnswered []string `yaml:"never_answered"`
	}
	sourceRow struct {
		Name       string     `yaml:"name"`
		Attribute  string     `yaml:"attribute"`
		Value      string     `yaml:"value"`
		ToolName   []string   `yaml:"tool_name"`
		CallID     []fieldRow `yaml:"call_id"`
		Arguments  []fieldRow `yaml:"arguments"`
		TrimPrefix []string   `yaml:"trim_prefix"`
		TrimSuffix []string   `yaml:"trim_suffix"`
		JSONRPC    bool       `yaml:"json_rpc"`
	}
	fieldRow struct {
		Attribute string `yaml:"attribute"`
		Path      string `yaml:"path"`
	}
	ownWorkRow struct {
		Attribute string   `yaml:"attribute"`
		Values    []string `yaml:"values"`
	}
	failedRow struct {
		Attribute string `yaml:"attribute"`
		Value     string `yaml:"value"`
	}
	resultRow struct {
		Name       string         `yaml:"name"`
		Attributes []string       `yaml:"attributes"`
		Is         map[string]any `yaml:"is"`
		Has        []string       `yaml:"has"`
		Text       string         `yaml:"text"`
	}
	verdictRow struct {
		ErrorType string `yaml:"errorType"`
		ErrorCode string `yaml:"errorCode"`
		Retryable *bool  `yaml:"retryable"`
	}
	classRow struct {
		verdictRow `yaml:",inline"`
		Number     string   `yaml:"number"`
		Status     int64    `yaml:"status"`
		Types      []string `yaml:"types"`
	}
	keyRow struct {
		Prefix string `yaml:"prefix"`
		Within string `yaml:"within"`
		Suffix string `yaml:"suffix"`
		Name   string `yaml:"name"`
	}
	messageRow struct {
		Attribute string `yaml:"attribute"`
		Type      string `yaml:"type"`
	}
)
