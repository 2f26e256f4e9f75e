#pragma once
// What becomes of the fields of a body that no reader looks up (Fields::visit_unread()). Nothing is ignored silently:
//
//   refused   the answer would be another one: 400, with the field's name and what to use instead
//   reported  in the answer ("reprise": {"unknown_fields": [...]}) and in the log: also every field without a rule
//   ignored   it asks for nothing that an answer has here
//
// A refused or reported field is accepted at its neutral values, which ask for nothing. The rules hold for all APIs: a
// field that an API's reader looks up is none of theirs. docs/api/fields.md has this table for users.
//
// What is reported is bounded: kMaxUnknownFields names of kUnknownFieldBytes each, then how many more there are.
//
// Threading: pure functions.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "protocol/api/fields.h"

namespace reprise::protocol {

struct FieldRule {
  enum class Fate : std::uint8_t { kRefused, kReported, kIgnored };

  std::string_view name;  // as Fields spells it: "user", "stream_options.include_obfuscation"
  Fate fate;
  std::string_view neutral;  // JSON values with a blank between two; unused where the field is ignored
  std::string_view note;     // refused: what to use instead, or empty; else: why the answer does without it
};

inline constexpr std::size_t kMaxUnknownFields = 8;
inline constexpr std::size_t kUnknownFieldBytes = 64;

/// All rules, in the order of docs/api/fields.md.
std::span<const FieldRule> field_rules();

/// Returns the names of what is left of a body that was read, each once, for `unknown_fields`. Throws BadRequest for a
/// field that is refused. Ollama's `options` hold what other APIs have at the top of a body, under the same rules.
std::vector<std::string> unknown_fields_of(const Fields& body);

/// {"unknown_fields": ["a", "b"]}
Json unknown_fields_report(const std::vector<std::string>& names);
/// Adds the report to the text of a JSON object as its last member, "reprise"; without names the text stays as it is.
void append_unknown_fields(const std::vector<std::string>& names, std::string& object);

}  // namespace reprise::protocol
