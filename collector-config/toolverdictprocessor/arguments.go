// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"hash/maphash"

	"github.com/tidwall/gjson"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// argsKey tells whether two calls had the same arguments, where the spans let that be known.
type argsKey struct {
	hash  uint64
	known bool
}

var argsSeed = maphash.MakeSeed()

func argsOf(text string) argsKey { return argsKey{maphash.String(argsSeed, text), true} }

// arguments of the call in hand: the SDK's keyed hash, else what was captured. Captured arguments that
// were cut are not known: two different ones may begin alike.
func (n *normaliser) arguments(s *source) argsKey {
	f := &n.facts
	if hash := f.text(slotArgumentsHash); hash != "" {
		return argsOf(hash)
	}
	if f.present.has(slotTruncated) {
		return argsKey{}
	}
	if s == nil {
		return n.captured(field{slot: slotArguments})
	}
	for _, from := range s.arguments {
		if key := n.captured(from); key.known {
			return key
		}
	}
	return argsKey{}
}

func (n *normaliser) captured(from field) argsKey {
	if !n.facts.present.has(from.slot) {
		return argsKey{}
	}
	switch value := n.facts.values[from.slot]; value.Type() {
	case pcommon.ValueTypeStr:
		if found := n.field(from); found.Type != gjson.Null && found.Raw != "" {
			return argsOf(found.Raw)
		}
	case pcommon.ValueTypeMap, pcommon.ValueTypeSlice:
		if from.path == "" {
			return argsOf(value.AsString())
		}
	}
	return argsKey{}
}
