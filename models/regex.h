#pragma once
// A compiled regular expression (PCRE2, UTF-8, Unicode properties, JIT where the machine allows it).
//
// Patterns are in PCRE2's syntax; regex_syntax.h translates those of tokenizer.json. `^` and `$` match at
// lines, `.` does not match \n, \n alone ends a line: as in Oniguruma, which the patterns are written for.
//
// Work is bounded: all searches in a text together backtrack no more often than a fixed number plus a
// multiple of the text's length, beyond a few steps that every place of the text has free; then a RegexError
// says that it gave up. No search uses the caller's stack for backtracking.
//
// Threading: a Regex is immutable and may be shared; a Matcher belongs to one thread and must not outlive its
// Regex.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace reprise::models {

/// A pattern that cannot be compiled, or a search past its limits.
class RegexError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Regex {
 public:
  explicit Regex(std::string_view pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  class Matcher {
   public:
    explicit Matcher(const Regex& regex);
    ~Matcher();
    Matcher(Matcher&&) noexcept;
    Matcher& operator=(Matcher&&) noexcept;

    /// Starts over in `text`, which must be valid UTF-8 and outlive the search.
    void start(std::string_view text);

    /// Finds the next match after the last one; an empty match right behind the last match is passed over.
    /// begin() and end() are its place in the text.
    bool next();

    std::size_t begin() const { return begin_; }
    std::size_t end() const { return end_; }

   private:
    struct State;
    bool search(std::size_t from);
    int run(std::size_t from, std::size_t last, std::uint32_t steps);
    [[noreturn]] static void fail(int code);

    std::unique_ptr<State> state_;
    std::string_view text_;
    std::size_t from_ = 0;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
    bool has_matched_ = false;
    std::uint64_t steps_left_ = 0;  // of those beyond the free ones
  };

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace reprise::models
