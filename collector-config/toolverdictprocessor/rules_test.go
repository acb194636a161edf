// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func testRules(t testing.TB) *rules {
	t.Helper()
	r, err := loadRules()
	require.NoError(t, err)
	return r
}

// rules.yaml loads, and every key it names has a slot of its own.
func TestRulesLoad(t *testing.T) {
	r := testRules(t)
	assert.Len(t, r.sources, 4)
	names := map[string]bool{}
	for s, name := range r.keys.names {
		assert.False(t, names[name], "%s has two slots", name)
		names[name] = true
		assert.Equal(t, slot(s), r.keys.slot(name))
	}
	for s := slotOutcome; s < ownSlots; s++ {
		assert.Equal(t, ownKeys[s], r.keys.names[s])
	}
}

// A rule that cannot be meant is refused with the place, what was given and what was expected.
func TestBadRulesAreRefused(t *testing.T) {
	for given, want := range map[string]string{
		`exceptions: [{errorType: oops, types: [A]}]`:                                          `errorType: "oops"; expected one of the six`,
		`exceptions: [{errorType: transport, errorCode: "Not a slug"}]`:                        `errorCode: "Not a slug"; expected [a-z0-9_]+`,
		`exceptions: [{errorType: transport, number: ftp}]`:                                    `number: "ftp"; expected http_status or json_rpc`,
		`exceptions: [{errorType: http_status, status: 200}]`:                                  `status: 200; expected 400-599`,
		`exceptions: [{errorType: transform, types: [A]}, {errorType: transform, types: [A]}]`: `"A" is listed twice`,
		`control_flow: {error: [A]}`:                                                           `"error"; expected cancelled, interrupted or closed`,
		`results: [{name: r, is: {a: 1}}]`:                                                     `results "r": a is 1; expected a string or a bool`,
		`asked: [{prefix: a}]`:                                                                 `expected a prefix and a suffix`,
		`never_answered: ["["]`:                                                                `never_answered: "["`,
	} {
		file := ruleFile{}
		file.Messages.Asked.Attribute, file.Messages.Answered.Attribute = "a", "b"
		require.NoError(t, yaml.Unmarshal([]byte(given), &file))
		_, err := compile(&file)
		assert.ErrorContains(t, err, want, given)
	}
}

// The names that the SDK writes too are the SDK's, to the letter.
func TestNamesAreThoseOfTheSDK(t *testing.T) {
	path := filepath.Join("..", "..", "acrux_otel", "attributes.py")
	source, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not there: this is not a checkout of the whole project", path)
	}
	require.NoError(t, err)
	theirs := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(\w+): Final = "([^"]+)"$`).FindAllStringSubmatch(string(source), -1) {
		theirs[m[1]] = m[2]
	}
	for name, ours := range map[string]string{
		"OPERATION_NAME": attrOperationName, "EXECUTE_TOOL": operationExecuteTool, "TOOL_NAME": attrToolName,
		"TOOL_CALL_ID": attrToolCallID, "OUTCOME": attrOutcome, "ERROR_TYPE": attrErrorType,
		"ERROR_CODE": attrErrorCode, "ERROR_DETAIL": attrErrorDetail, "SEMCONV_ERROR_TYPE": attrSemconvError,
		"RETRYABLE": attrRetryable, "WARNING_TYPE": attrWarningType, "WARNING_MESSAGE": attrWarningMessage,
		"HTTP_STATUS": attrHTTPStatus, "ATTEMPTS": attrAttempts, "ARGUMENTS_HASH": attrArgumentsHash,
		"TOOL_ARGUMENTS": attrArguments, "TRUNCATED_BYTES": attrTruncatedBytes, "TRACE_OUTCOME": attrTraceOutcome,
		"RUN_CALLS": attrCalls, "RUN_FAILED": attrFailed, "RUN_WARNED": attrWarned,
		"RUN_NOT_EXECUTED": attrNotExecuted, "RUN_RETRIES": attrRetries, "RUN_FIRST_FAILED_TOOL": attrFirstFailed,
		"RUN_FIRST_FAILED_TYPE": attrFirstFailedType, "RUN_FIRST_FAILED_CODE": attrFirstFailedCode,
		"EXCEPTION_EVENT": eventException, "EXCEPTION_TYPE": attrExceptionType,
		"EXCEPTION_MESSAGE": attrExceptionMessage,
	} {
		assert.Equal(t, theirs[name], ours, name)
	}
}

// Class names become codes as the SDK makes them.
func TestClassNamesBecomeSnakeCase(t *testing.T) {
	for given, want := range map[string]string{
		"ValueError": "value_error", "OSError": "os_error", "HTTPStatusError": "http_status_error", "E": "e",
		"JSONDecodeError": "json_decode_error", "S3UploadFailed": "s3_upload_failed", "already_snake": "already_snake",
		"with-dash": "with_dash", "": "unspecified", "___": "unspecified", "Ünïcode": "n_code",
		"ABCDef": "abc_def", "A1B2": "a1_b2",
	} {
		assert.Equal(t, want, snake(given), given)
	}
}
