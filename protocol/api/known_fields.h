#pragma once
// Fields of a request that mean nothing to the API it came by: misspelt ones, most likely. A request with one is
// answered all the same; the answer names it ("reprise": {"unknown_fields": [...]}), and so does the log.
//
// Known are those that are read, those that are refused where they ask for something, and those that clients send on
// purpose and that change nothing here (a user's name, where a model is to be held). Only the top of a body is looked
// at, and Ollama's `options`.
//
// What is named is bounded: kMostUnknownFields names of kUnknownFieldBytes each, then how many more there are.
//
// Threading: pure functions.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace reprise::protocol {

enum class FieldsOf : std::uint8_t {
  kChat,           // /v1/chat/completions
  kCompletions,    // /v1/completions
  kLlamaChat,      // /chat/completions
  kLlama,          // /completion and /infill
  kOllama,         // /api/chat and /api/generate
  kOllamaOptions,  // their `options`
  kMessages,
  kResponses,
};

inline constexpr std::size_t kMostUnknownFields = 8;
inline constexpr std::size_t kUnknownFieldBytes = 64;

bool is_known_field(FieldsOf api, std::string_view name);

/// Appends the names of members of `object` that are not known, each with `before` in front of it. A member that is
/// null counts as one that is not there.
void note_unknown_fields(const Json& object, FieldsOf api, std::vector<std::string>& names,
                         std::string_view before = {});

/// ["a", "b"]
Json list_of_texts(const std::vector<std::string>& texts);

}  // namespace reprise::protocol
