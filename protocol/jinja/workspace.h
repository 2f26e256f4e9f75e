#pragma once
// The workspace of one rendering: values are made here, and what they and the work on them cost is counted
// against the limits. Who goes past one gets a Failure that names it.
//
// Threading: one rendering, one thread. Values made here must not outlive it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/jinja/limits.h"
#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

class Workspace {
 public:
  explicit Workspace(const RenderLimits& limits, std::int64_t now = 0) : limits_(limits), now_(now) {}
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace();

  const RenderLimits& limits() const { return limits_; }
  std::int64_t now() const { return now_; }  // in seconds since 1970

  // Work. Long values cost by their length.
  void step() {
    if (++steps_ > limits_.steps) fail_steps();
  }
  void work(std::size_t bytes) {
    steps_ += bytes / kBytesPerStep;
    step();
  }

  /// Before something of this size is made; nothing over the limit is ever allocated.
  void check_text(std::size_t bytes) const;
  void check_items(std::size_t count) const;

  void take_memory(std::size_t bytes);
  void give_memory(std::size_t bytes) { memory_ -= bytes; }

  Value text(std::string text, bool safe = false);
  Value list(std::vector<Value> items, List::Flavor flavor = List::Flavor::kList);
  Value tuple(std::vector<Value> items) { return list(std::move(items), List::Flavor::kTuple); }
  Value dict(std::shared_ptr<Dict> built);

  /// An iterator over these, which a Python generator would be: it can be read once.
  Value iterator(std::vector<Value> items);

  /// Keeps the object, and clears it when the rendering ends.
  Value keep(std::shared_ptr<Object> object);

  /// Nested evaluation.
  class Level {
   public:
    explicit Level(Workspace& workspace) : workspace_(workspace) {
      if (++workspace_.depth_ > workspace_.limits_.depth) workspace_.fail_depth();
    }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { --workspace_.depth_; }

   private:
    Workspace& workspace_;
  };

 private:
  static constexpr std::size_t kBytesPerStep = 16;  // changing the case of a byte takes about 15 ns

  [[noreturn]] void fail_steps() const;
  [[noreturn]] void fail_depth();

  const RenderLimits limits_;
  const std::int64_t now_;
  std::uint64_t steps_ = 0;
  std::size_t depth_ = 0;
  std::size_t memory_ = 0;
  std::vector<std::shared_ptr<Object>> kept_;
};

}  // namespace reprise::protocol::jinja
