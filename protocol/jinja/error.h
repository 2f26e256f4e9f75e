#pragma once
// How a template fails: at compile time, by its own raise_exception, by an operation that does not work, or
// at a limit; and the limits.
//
// Inside the engine a failure is an exception, Failure, that ends the compilation or rendering; Template
// catches it and hands out a TemplateError. Templates and conversations come from outside, so every limit is
// enforced, and the error of a template that exceeds one names it.
//
// Threading: plain values.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::protocol::jinja {

struct RenderLimits {
  std::uint64_t steps = 50'000'000;       // evaluated nodes, and work on long values by its length
  std::size_t depth = 1000;               // nested evaluation: expressions, blocks, macro calls
  std::size_t output_bytes = 64u << 20;   // of the result and of what blocks and macros hold back
  std::size_t text_bytes = 64u << 20;     // of one string
  std::size_t items = 1'000'000;          // of one list, tuple or dict
  std::size_t memory_bytes = 512u << 20;  // of all strings, lists and dicts alive
};

/// Of the source.
inline constexpr std::size_t kMaxSourceBytes = 1u << 20;
inline constexpr int kMaxNesting = 200;          // brackets, blocks, operators in front of operators
inline constexpr int kMaxExpressionDepth = 400;  // of the tree, which chains such as a + b + … make deep
inline constexpr int kMaxValueDepth = 200;       // lists in lists

struct TemplateError {
  enum class Kind : std::uint8_t {
    kSyntax,   // the source is no template
    kRaised,   // the template called raise_exception: the conversation is not one that it takes
    kRuntime,  // an operation that does not work on the values it met
    kLimit,    // the rendering went past one of its limits, which the reason names
  };

  Kind kind = Kind::kRuntime;
  int line = 0;  // in the template, from 1; 0 where there is none
  std::string reason;

  /// "line 12: 'foo' is undefined"
  std::string describe() const {
    std::string place = line > 0 ? "line " : "";
    if (line > 0) place.append(std::to_string(line)).append(": ");
    return place += reason;
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

/// The pieces, one behind the other.
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
