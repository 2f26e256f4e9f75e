#pragma once
// CompileBudget: what compiling one grammar has used up of its limits. Whatever could grow asks it, and is stopped
// by a GrammarError that names the limit.
//
// Threading: one thread, for one compilation.

#include <chrono>
#include <string>

#include "protocol/grammar/grammar_error.h"

namespace reprise::protocol::grammar {

class CompileBudget {
 public:
  explicit CompileBudget(const Limits& limits) : limits_(limits), began_(std::chrono::steady_clock::now()) {}

  const Limits& limits() const { return limits_; }

  void add_char_states(std::size_t count) {
    char_states_ += count;
    if (char_states_ > limits_.all_char_states) {
      throw GrammarError("its patterns and names need more than " + std::to_string(limits_.all_char_states) +
                         " states");
    }
    check_time();
  }

  void check_time() const {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - began_;
    if (spent.count() > limits_.compile_seconds) {
      throw GrammarError("compiling it takes longer than " +
                         std::to_string(static_cast<int>(limits_.compile_seconds)) + " s");
    }
  }

 private:
  const Limits limits_;
  const std::chrono::steady_clock::time_point began_;
  std::size_t char_states_ = 0;
};

}  // namespace reprise::protocol::grammar
