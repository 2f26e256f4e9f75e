#pragma once
// WorkBudget: counts the work of compiling one grammar or computing one mask against its limits. Every loop
// and recursion over client input charges it. Exceeding a limit throws a GrammarError that names it. After
// the steps or the time are used up, every further charge throws too, so retrying in an error handler makes
// no progress.
//
// Threading: one thread, for one piece of work.

#include <time.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

namespace reprise::protocol::grammar {

/// A constraint cannot be compiled or a mask cannot be computed. compile.h converts it to a value.
class GrammarError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Limits of a grammar. Everything that a client can make large has a bound that the error names. A step is
/// 10 to 30 ns on a slow x86 core.
struct Limits {
  std::size_t text_bytes = 1u << 20;        // bytes of a pattern, a grammar, or a serialized schema
  std::size_t depth = 256;                  // nesting of brackets and repetitions; of schemas
  std::size_t nodes = 400'000;              // nodes of a compiled grammar
  std::size_t schemas = 60'000;             // combinations of subschemas examined
  std::size_t char_states = 120'000;        // states of one automaton
  std::size_t all_char_states = 1'000'000;  // states of all automata of a grammar
  std::size_t repetitions = 1'000'000;      // largest count in {m,n}, maxItems, maxLength
  std::uint64_t compile_steps = 100'000'000;
  std::size_t compile_bytes = 192u << 20;  // peak, approximate
  double compile_seconds = 5;              // CPU time of the thread
  std::uint64_t mask_steps = 50'000'000;   // for one mask, including finding the reply's state
  std::size_t mask_bytes = 64u << 20;      // cache growth for one mask
  std::size_t matcher_bytes = 48u << 20;   // cached states, transitions and masks
  std::size_t configurations = 20'000;     // locations in one matcher state
};

/// Returns whether the result is still needed; polled every few milliseconds. Empty: always.
using IsWanted = std::function<bool()>;

class WorkBudget {
 public:
  struct Bounds {
    std::uint64_t steps = 0;
    std::size_t bytes = 0;
    double seconds = 0;  // CPU time of the thread; 0: unlimited
  };

  /// `work` is its name in errors, such as "compiling it".
  WorkBudget(const char* work, const Limits& limits, const Bounds& bounds)
      : limits_(limits), work_(work), bounds_(bounds) {
    begin({});
  }
  WorkBudget(const WorkBudget&) = delete;
  WorkBudget& operator=(const WorkBudget&) = delete;

  /// Starts a new piece of work with all counters reset and at most `max_steps` steps.
  void begin(IsWanted wanted, std::uint64_t max_steps = UINT64_MAX) {
    wanted_ = std::move(wanted);
    max_steps_ = std::min(bounds_.steps, max_steps);
    steps_ = 0;
    next_look_ = std::min(kBetweenLooks, max_steps_ + 1);
    bytes_ = 0;
    has_begun_ = bounds_.seconds > 0;
    if (has_begun_) began_ = thread_seconds();
  }

  const Limits& limits() const { return limits_; }
  std::uint64_t steps() const { return steps_; }
  std::size_t bytes() const { return bytes_; }

  void charge(std::uint64_t steps = 1) {
    steps_ += steps;
    if (steps_ >= next_look_) look();
  }

  /// Charges memory until the work ends; use Held for temporary memory.
  void take(std::size_t bytes) {
    bytes_ += bytes;
    if (bytes_ > bounds_.bytes) fail_bytes();
    charge(1 + bytes / kBytesPerStep);
  }

  /// Charges memory for the lifetime of the object.
  class Held {
   public:
    explicit Held(WorkBudget& budget) : budget_(budget) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() { budget_.bytes_ -= bytes_; }
    void add(std::size_t bytes) {
      bytes_ += bytes;
      budget_.take(bytes);
    }

   private:
    WorkBudget& budget_;
    std::size_t bytes_ = 0;
  };

  /// Charges one level of recursion for its lifetime.
  class Level {
   public:
    explicit Level(WorkBudget& budget) : budget_(budget) {
      if (budget_.depth_ >= budget_.limits_.depth) budget_.fail_depth();
      ++budget_.depth_;
      budget_.charge();
    }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { --budget_.depth_; }

   private:
    WorkBudget& budget_;
  };

  void add_char_states(std::size_t count) {
    char_states_ += count;
    if (char_states_ > limits_.all_char_states) {
      throw GrammarError("its patterns and names need more than " + std::to_string(limits_.all_char_states) +
                         " states");
    }
  }

 private:
  static constexpr std::uint64_t kBetweenLooks = 1 << 16;
  static constexpr std::size_t kBytesPerStep = 256;

  static double thread_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  }

  void look() {
    next_look_ = steps_;  // unchanged if an exception follows, so that the next charge throws too
    if (steps_ > max_steps_)
      throw GrammarError(std::string(work_) + " takes more than " + std::to_string(max_steps_) + " steps");
    if (wanted_ && !wanted_()) throw GrammarError("the client has disconnected");
    if (has_begun_) {
      if (thread_seconds() - began_ > bounds_.seconds) {
        throw GrammarError(std::string(work_) + " takes longer than " +
                           std::to_string(static_cast<int>(bounds_.seconds)) + " s");
      }
    }
    next_look_ = std::min(steps_ + kBetweenLooks, max_steps_ + 1);
  }
  [[noreturn]] void fail_bytes() const {
    throw GrammarError(std::string(work_) + " needs more than " + std::to_string(bounds_.bytes >> 20) +
                       " MiB of memory");
  }
  [[noreturn]] void fail_depth() const {
    throw GrammarError("it is nested too deeply: more than " + std::to_string(limits_.depth) + " levels");
  }

  const Limits limits_;
  const char* const work_;
  const Bounds bounds_;
  IsWanted wanted_;
  double began_ = 0;
  bool has_begun_ = false;
  std::uint64_t max_steps_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t next_look_ = 0;
  std::size_t bytes_ = 0;
  std::size_t depth_ = 0;
  std::size_t char_states_ = 0;
};

}  // namespace reprise::protocol::grammar
