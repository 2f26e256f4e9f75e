#pragma once
// ToolSchemas: what a request's tools say about names and parameters. Calls in tags carry values as bare
// text; the schema says which of them are strings and which are JSON.
//
// Threading: const after construction.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"

namespace reprise::protocol {

class ToolSchemas {
 public:
  enum class Kind : std::uint8_t {
    kText,   // a string and nothing else
    kMixed,  // a string or null
    kJson,   // anything else, or not described
  };

  /// An array of tools as OpenAI has them, or of bare functions; null: none.
  explicit ToolSchemas(Json tools) : tools_(std::move(tools)) {}

  bool has(std::string_view tool) const { return find(tool) != nullptr; }
  Kind kind_of(std::string_view tool, std::string_view parameter) const;

 private:
  const Json* find(std::string_view tool) const;

  Json tools_;
};

/// The JSON text of a value that a model wrote as bare text. Text that is no JSON becomes a string; True,
/// False and None, as Python writes them, are understood.
std::string json_of_bare_value(std::string_view text, ToolSchemas::Kind kind);

}  // namespace reprise::protocol
