#pragma once
// Errors and limits of templates.
//
// Internally an error is a Failure exception, which ends the compilation or rendering; Template catches it
// and returns a TemplateError. Templates and conversations are untrusted input, so all limits are enforced,
// and the error names the limit exceeded.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::protocol::jinja {

struct RenderLimits {
  // evaluated nodes, plus work on long values in proportion to their length
  std::uint64_t steps = 50'000'000;
  std::size_t depth = 1000;               // nesting of expressions, blocks and macro calls
  std::size_t output_bytes = 64u << 20;   // result plus the captured output of blocks and macros
  std::size_t text_bytes = 64u << 20;     // bytes of one string
  std::size_t items = 1'000'000;          // items of one list, tuple or dict
  std::size_t memory_bytes = 512u << 20;  // all live strings, lists and dicts
};

/// Limits of the source.
inline constexpr std::size_t kMaxSourceBytes = 1u << 20;
inline constexpr int kMaxNesting = 200;  // brackets, blocks, unary operators
// height of the syntax tree, which chains such as a + b + ... increase
inline constexpr int kMaxExpressionDepth = 400;
inline constexpr int kMaxValueDepth = 200;  // nested lists

struct TemplateError {
  enum class Kind : std::uint8_t {
    kSyntax,   // invalid template
    kRaised,   // the template called raise_exception to reject the conversation
    kRuntime,  // an invalid operation on values
    kLimit,    // a limit was exceeded; the reason names it
  };

  Kind kind = Kind::kRuntime;
  int line = 0;  // in the template, from 1; 0: unknown
  std::string reason;

  /// Returns for example "line 12: 'foo' is undefined".
  std::string describe() const {
    std::string text = line > 0 ? "line " : "";
    if (line > 0) text.append(std::to_string(line)).append(": ");
    return text += reason;
  }
};

class Failure : public std::exception {
 public:
  Failure(TemplateError::Kind kind, std::string reason, int line = 0)
      : error_{kind, line, std::move(reason)} {}

  const char* what() const noexcept override { return error_.reason.c_str(); }
  const TemplateError& error() const { return error_; }

 private:
  TemplateError error_;
};

inline std::string cat(std::initializer_list<std::string_view> pieces) {
  std::string out;
  for (const std::string_view piece : pieces) out += piece;
  return out;
}

[[noreturn]] inline void fail(std::string reason) {
  throw Failure(TemplateError::Kind::kRuntime, std::move(reason));
}
[[noreturn]] inline void fail(std::initializer_list<std::string_view> pieces) {
  fail(cat(pieces));
}

}  // namespace reprise::protocol::jinja
