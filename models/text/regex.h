#pragma once
// Regular expressions of tokenizers, on PCRE2 (UTF-8, Unicode properties, JIT where the machine allows it).
//
// A Regex takes a pattern in PCRE2's syntax. Those of tokenizer.json are written for Oniguruma; to_pcre2() says the same
// where the two differ:
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
// As in Oniguruma `^` and `$` match at lines, `.` does not match \n, \n alone ends a line.
//
// Work is bounded: a match gives up with a RegexError once it has taken more steps from one place than a
// fixed number plus a multiple of the text's length, and so do all searches in a text together once they have
// taken two seconds of the processor and a microsecond for each byte. No search uses the caller's stack for
// backtracking.
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
    int search_slowly(std::size_t from, std::size_t last);
    int run(std::size_t from, std::size_t last, std::uint64_t steps);
    std::size_t next_place(std::size_t place) const;
    void look_at_time();
    [[noreturn]] static void fail(const std::string& why);

    std::unique_ptr<State> state_;
    std::string_view text_;
    std::size_t from_ = 0;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
    bool has_matched_ = false;
    std::uint32_t searches_ = 0;
    std::chrono::nanoseconds began_{};  // by the processor's time; 0: no look yet
  };

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

/// RegexError for what cannot be translated. The result may still be refused by the Regex constructor.
std::string to_pcre2(std::string_view pattern);

/// `text` as a pattern that matches just this text.
std::string quote_regex(std::string_view text);

/// Returns the parts one after another: patterns are made of shorter ones.
std::string join(std::initializer_list<std::string_view> parts);

}  // namespace reprise::models
