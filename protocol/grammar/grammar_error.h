#pragma once
// GrammarError: why there is no grammar for what was asked. Thrown within protocol/grammar, whose doors
// (compile.h) turn it into a value.
//
// Threading: plain values.

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace reprise::protocol::grammar {

class GrammarError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a grammar may take at most: of everything that a client can make large there is a bound, and the error
/// names it. A step is 10 to 30 ns of work on a slow x86 core.
struct Limits {
  std::size_t text_bytes = 1u << 20;  // of a pattern, a grammar, a schema as text
  std::size_t depth = 256;            // of brackets and repetitions in a text; of schemas within schemas
  std::size_t nodes = 400'000;        // of a compiled grammar
  std::size_t schemas = 60'000;       // combinations of subschemas that are looked at
  std::size_t char_states = 120'000;  // of one automaton over characters
  std::size_t all_char_states = 1'000'000;  // of all that a grammar has
  std::size_t repetitions = 1'000'000;      // the highest count in {m,n}, maxItems, maxLength
  std::uint64_t compile_steps = 100'000'000;
  std::size_t compile_bytes = 192u << 20;  // at once, about
  double compile_seconds = 5;              // of its thread
  std::uint64_t mask_steps = 50'000'000;   // of one mask, and of finding its position in the reply
  std::size_t mask_bytes = 64u << 20;      // that one mask may add to what is kept
  std::size_t matcher_bytes = 48u << 20;   // of states, transitions and masks that are kept
  std::size_t configurations = 20'000;     // of one state
};

}  // namespace reprise::protocol::grammar
