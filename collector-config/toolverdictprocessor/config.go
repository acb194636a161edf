// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/component"
)

// Config is the configuration of the processor. README.md has the table.
type Config struct {
	// Normalise writes verdicts on the tool spans of other instrumentations.
	Normalise bool `mapstructure:"normalise"`

	// OverrideOK makes a failed call's status ERROR even where its span says OK.
	OverrideOK bool `mapstructure:"override_ok"`

	// MaxContentBytes is the longest captured content (result, arguments, messages) that is looked into.
	MaxContentBytes int `mapstructure:"max_content_bytes"`

	// Rollup sums each trace up on its root. Put groupbytrace before it.
	Rollup bool `mapstructure:"rollup"`

	// MarkRoot puts ERROR on the root of a failed trace where its status is UNSET.
	MarkRoot bool `mapstructure:"mark_root"`

	// WaitDuration is groupbytrace's wait_duration: a longer root outlived its group. 0: not known.
	WaitDuration time.Duration `mapstructure:"wait_duration"`

	// Storm says how many calls are too many.
	Storm StormConfig `mapstructure:"storm"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// StormConfig holds the thresholds of repetition within one trace; above them it is a storm. 0: off.
type StormConfig struct {
	// CallsPerTool is for the calls of one tool, whatever their arguments.
	CallsPerTool int `mapstructure:"calls_per_tool"`

	// IdenticalCalls is for the calls of one tool with the same arguments.
	IdenticalCalls int `mapstructure:"identical_calls"`

	// prevent unkeyed literal initialization
	_ struct{}
}

const (
	defaultMaxContentBytes = 256 << 10
	defaultCallsPerTool    = 20
	defaultIdenticalCalls  = 5

	maxContentBytesLimit = 16 << 20
	stormLimit           = 1_000_000
	shortestWait         = time.Millisecond // a number without a unit is nanoseconds
	waitLimit            = 24 * time.Hour
)

func createDefaultConfig() component.Config {
	return &Config{
		Normalise:       true,
		OverrideOK:      false,
		MaxContentBytes: defaultMaxContentBytes,
		Rollup:          true,
		MarkRoot:        false,
		WaitDuration:    0,
		Storm: StormConfig{
			CallsPerTool:   defaultCallsPerTool,
			IdenticalCalls: defaultIdenticalCalls,
		},
	}
}

// Validate says of every field that cannot be meant what was given and what was expected.
func (c *Config) Validate() error {
	var errs []error
	if !c.Normalise && !c.Rollup {
		errs = append(errs, errors.New("normalise and rollup are both false; expected one of them true: with neither, leave the processor out"))
	}
	if c.MaxContentBytes < 0 || c.MaxContentBytes > maxContentBytesLimit {
		errs = append(errs, fmt.Errorf("max_content_bytes is %d; expected 0 (look into no content) to %d", c.MaxContentBytes, maxContentBytesLimit))
	}
	if c.MarkRoot && !c.Rollup {
		errs = append(errs, errors.New("mark_root is true and rollup is false; expected rollup: true, which is what finds the root"))
	}
	if c.OverrideOK && !c.Normalise {
		errs = append(errs, errors.New("override_ok is true and normalise is false; expected normalise: true, which is what writes statuses"))
	}
	if c.WaitDuration != 0 && (c.WaitDuration < shortestWait || c.WaitDuration > waitLimit) {
		errs = append(errs, fmt.Errorf("wait_duration is %s; expected 0s (not known) or %s to %s, with its unit: groupbytrace's own wait_duration", c.WaitDuration, shortestWait, waitLimit))
	}
	return errors.Join(append(errs, c.Storm.validate())...)
}

func (c *StormConfig) validate() error {
	threshold := func(field string, value int) error {
		if value == 0 || (value >= 2 && value <= stormLimit) {
			return nil
		}
		return fmt.Errorf("storm::%s is %d; expected 0 (off) or 2 to %d calls", field, value, stormLimit)
	}
	return errors.Join(
		threshold("calls_per_tool", c.CallsPerTool), threshold("identical_calls", c.IdenticalCalls))
}
