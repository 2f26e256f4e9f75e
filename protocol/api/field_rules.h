#pragma once
// Rules for the fields of a body that no reader looks up (Fields::visit_unread()). Nothing is dropped
// silently:
//
//   refused   it would change the answer: 400, with the field's name and the alternative
//   reported  in the answer ("reprise": {"unknown_fields": [...]}) and the log; also every field without a rule
//   ignored   it requests nothing that affects an answer here
//
// A refused or reported field is accepted at its neutral values, which request nothing. The rules apply to
// all APIs, but never to a field that the API's reader looks up. docs/api/fields.md has this table for users.
//
// The report is bounded: kMaxUnknownFields names of up to kUnknownFieldBytes bytes, then the number of
// further ones.

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

  std::string_view name;  // as Fields spells it, e.g. "stream_options.include_obfuscation"
  Fate fate;
  std::string_view neutral;  // JSON values separated by a space; unused if ignored
  std::string_view note;     // refused: the alternative, or empty; otherwise: why it has no effect
};

inline constexpr std::size_t kMaxUnknownFields = 8;
inline constexpr std::size_t kUnknownFieldBytes = 64;

/// Returns all rules, in the order of docs/api/fields.md.
std::span<const FieldRule> field_rules();

/// Returns the names of the unread fields of a body, each once, for `unknown_fields`. Throws BadRequest for a
/// refused field. The members of Ollama's `options` fall under the rules of top-level fields.
std::vector<std::string> unknown_fields_of(const Fields& body);

/// Returns {"unknown_fields": ["a", "b"]}.
Json unknown_fields_report(const std::vector<std::string>& names);
/// Appends the report to the JSON object in `object` as its last member, "reprise". Does nothing without
/// names.
void append_unknown_fields(const std::vector<std::string>& names, std::string& object);

}  // namespace reprise::protocol
