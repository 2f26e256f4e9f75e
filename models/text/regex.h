#pragma once
// Regular expressions of tokenizers, on PCRE2 (UTF-8, Unicode properties, JIT where available).
//
// A Regex takes PCRE2 syntax. Patterns in tokenizer.json use Oniguruma's; to_pcre2() translates where the two
// differ:
//
//   \s \S           the White_Space property; PCRE2's own \s has one character more
//   \w \W \b \B     Oniguruma's notion of a word
//   \h \v           a hexadecimal digit, a vertical tab
//   \uHHHH {,n}     forms that PCRE2 does not know
//   x{n,m}+         a repeated interval, not a possessive one
//   [a[^b]&&[c]]    nested classes and intersections, rewritten with lookaheads
//   \p{Letter}      long names of categories; names of scripts mean the script alone, not its extensions
//   (?m:…)          a dot that matches newlines
//
// As in Oniguruma, `^` and `$` match at lines, `.` does not match \n, and only \n ends a line.
//
// Work is bounded: a match throws RegexError after a fixed number of steps from one offset plus a multiple of
// the text's length; so do all searches in a text together after two seconds of CPU time plus a microsecond
// per byte. No search backtracks on the caller's stack.
//
// Threading: a Regex is immutable and may be shared; a Matcher belongs to one thread and must not outlive its
// Regex.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace reprise::models {

/// A pattern that does not compile, or a search past its limits.
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

    /// Restarts the search in `text`, which must be valid UTF-8 and outlive the search.
    void start(std::string_view text);

    /// Finds the next match, at [begin(), end()); skips an empty match directly after the previous match.
    /// Returns false if there is none.
    bool next();

    std::size_t begin() const { return begin_; }
    std::size_t end() const { return end_; }

   private:
    struct State;
    bool search(std::size_t from);
    int search_slowly(std::size_t from, std::size_t last);
    int run(std::size_t from, std::size_t last, std::uint64_t steps);
    std::size_t next_offset(std::size_t offset) const;
    void look_at_time();
    [[noreturn]] static void fail(const std::string& why);

    std::unique_ptr<State> state_;
    std::string_view text_;
    std::size_t from_ = 0;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
    bool has_matched_ = false;
    std::uint32_t searches_ = 0;
    std::chrono::nanoseconds began_{};  // CPU time of the first check; 0: not checked yet
  };

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

/// Translates Oniguruma syntax. Throws RegexError if it cannot. The result may still be refused by Regex.
std::string to_pcre2(std::string_view pattern);

/// A pattern that matches exactly `text`.
std::string quote_regex(std::string_view text);

/// Concatenates `parts`.
std::string join(std::initializer_list<std::string_view> parts);

}  // namespace reprise::models
