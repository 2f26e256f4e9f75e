#pragma once
// The timeline of one request: marks with times, from the first byte received to the last byte sent. Each
// request carries its trace, and code that works on the request adds marks.
//
// Marks are kept even when tracing is off, so that a client can be given its timeline; while tracing is on
// they are also events of the trace. A mark has a name and a few facts (a name with a number or a word),
// which are cheap to make: names and words must be string literals or otherwise never freed.
//
// Bound: kMaxMarks per request; further ones are counted. Threading: any thread; copies share one timeline.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::traces {

struct Fact {
  Fact() = default;
  Fact(const char* called, std::integral auto value)
      : name(called), number(static_cast<std::uint64_t>(value)) {}
  Fact(const char* called, std::string_view value) : name(called), word(value) {}

  const char* name = "";
  std::string_view word{};  // empty: the fact is `number`
  std::uint64_t number = 0;
};

struct Mark {
  static constexpr std::size_t kMaxFacts = 4;

  const char* event = "";
  std::int64_t after_ns = 0;  // since the request began
  std::array<Fact, kMaxFacts> facts{};
  std::size_t fact_count = 0;
};

class RequestTrace {
 public:
  static constexpr std::size_t kMaxMarks = 256;

  /// A trace without a request: ignores marks.
  RequestTrace() = default;
  /// Starts with the mark `event` at `begin_ns` of the steady clock; 0: now.
  RequestTrace(std::string id, const char* event, std::int64_t begin_ns = 0);

  explicit operator bool() const { return way_ != nullptr; }
  /// Empty if there is no request.
  std::string_view id() const;

  /// Adds a mark with at most Mark::kMaxFacts facts.
  void mark(const char* event, std::initializer_list<Fact> facts = {}) const;
  void end(const char* event, std::initializer_list<Fact> facts = {}) const;

  std::vector<Mark> marks() const;
  /// Number of marks lost to the bound.
  std::size_t unkept() const;

 private:
  struct Way;

  std::shared_ptr<Way> way_;
};

}  // namespace reprise::traces
