#pragma once
// Lexer: splits a template into text and the tokens inside tags.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::protocol::jinja {

struct Token {
  enum class Type : std::uint8_t {
    kData,           // text outside tags
    kVariableBegin,  // {{
    kVariableEnd,    // }}
    kBlockBegin,     // {%
    kBlockEnd,       // %}
    kName,
    kString,   // `text` is the value with escapes resolved
    kInteger,  // value in `integer`
    kFloat,    // value in `number`
    kOperator,
    kEnd,
  };

  Type type = Type::kEnd;
  int line = 1;
  std::string text{};
  std::int64_t integer = 0;
  double number = 0;

  bool is(Type wanted) const { return type == wanted; }
  bool is_name(std::string_view name) const { return type == Type::kName && text == name; }
  bool is_operator(std::string_view sign) const { return type == Type::kOperator && text == sign; }

  /// Describes the token for error messages.
  std::string describe() const;
};

/// Returns the tokens; the last is kEnd. Handles whitespace around tags like transformers (trim_blocks,
/// lstrip_blocks). Fails with the line for invalid tokens.
std::vector<Token> tokenize(std::string_view source);

}  // namespace reprise::protocol::jinja
