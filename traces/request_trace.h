#pragma once
// The way of one request: marks with times, from the first byte that came in to the last that went out. A request
// carries its trace along, and whoever does something for it marks that.
//
// Marks are kept with the request whether anybody traces or not, so that a client can be told its own timeline; while
// somebody traces they are events of the trace, too, with the request's id.
//
// What a mark says besides its name are a few facts: a name with a number or a word, which cost nothing to make.
// Names and words live for ever.
//
// Bound: kMostMarks a request; what comes beyond is counted. Threading: any thread; copies are of one request.

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
  std::string_view word{};  // empty: a number
  std::uint64_t number = 0;
};

struct Mark {
  static constexpr std::size_t kMostFacts = 4;

  const char* event = "";
  std::int64_t after_ns = 0;  // the request's begin
  std::array<Fact, kMostFacts> facts{};
  std::size_t fact_count = 0;
};

class RequestTrace {
 public:
  static constexpr std::size_t kMostMarks = 256;

  /// Nobody's: marks go nowhere.
  RequestTrace() = default;
  /// Begins with the mark `event`, at `begin_ns` of the steady clock; 0: now.
  RequestTrace(std::string id, const char* event, std::int64_t begin_ns = 0);

  explicit operator bool() const { return way_ != nullptr; }
  /// Empty: nobody's.
  std::string_view id() const;

  /// At most Mark::kMostFacts facts.
  void mark(const char* event, std::initializer_list<Fact> facts = {}) const;
  /// The last mark.
  void end(const char* event, std::initializer_list<Fact> facts = {}) const;

  std::vector<Mark> marks() const;
  /// That were too many.
  std::size_t unkept() const;

 private:
  struct Way;

  std::shared_ptr<Way> way_;
};

}  // namespace reprise::traces
