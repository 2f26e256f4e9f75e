#include <algorithm>
#include <bit>
#include <deque>
#include <vector>

#include "base/check.h"
#include "models/checkpoint.h"
#include "models/cpu/experts.h"
#include "models/host_experts.h"
#include "traces/trace.h"

namespace reprise::models {

struct HostExperts::Inside {
  struct Layer {
    MoeSpec spec;
    Experts experts;
  };

  Inside(const ComputeOptions& how, unsigned thread_count)
      : options(how), threads(thread_count), kernels(gpu::cpu_kernels(how.isa)) {}

  const ComputeOptions options;
  gpu::Threads threads;
  const gpu::Kernels& kernels;
  Scratch scratch;
  std::deque<Layer> layers;
  std::vector<std::uint32_t> chosen;  // of the rows at work

  void sum(const Layer& layer, const ChosenRows& rows, float* y);
};

HostExperts::HostExperts(const ComputeOptions& options, unsigned threads)
    : inside_(std::make_unique<Inside>(options, threads)) {}

HostExperts::~HostExperts() = default;

std::size_t HostExperts::add(const MoeSpec& spec, const Checkpoint& checkpoint) {
  inside_->layers.push_back({.spec = spec, .experts = Experts(spec, checkpoint)});
  inside_->layers.back().experts.prepare(
      {.kernels = inside_->kernels, .compute = inside_->options.compute, .threads = inside_->threads});
  return inside_->layers.size() - 1;
}

std::size_t HostExperts::layers() const {
  return inside_->layers.size();
}

void HostExperts::sum(std::size_t layer, const ChosenRows& rows, float* y) {
  static constexpr traces::ZoneSite kSite{"experts on the host"};
  const traces::Zone zone(kSite);
  const Inside::Layer& own = inside_->layers.at(layer);
  const std::size_t width = own.spec.width();
  for (std::size_t first = 0; first < rows.count; first += Experts::kMostRowsAtOnce) {
    const std::size_t choice = first * own.spec.chosen;
    inside_->sum(own,
                 {.count = std::min(Experts::kMostRowsAtOnce, rows.count - first),
                  .x = rows.x + first * width,
                  .experts = rows.experts + choice,
                  .weights = rows.weights + choice},
                 y + first * width);
  }
}

void HostExperts::Inside::sum(const Layer& layer, const ChosenRows& rows, float* y) {
  const MoeSpec& spec = layer.spec;
  const std::size_t width = spec.width();
  const std::size_t choices = rows.count * spec.chosen;
  // They come from another machine's memory, and are used as places in ours.
  chosen.resize(choices);
  for (std::size_t i = 0; i < choices; ++i) {
    const bool is_known = rows.experts[i] >= 0 && static_cast<std::size_t>(rows.experts[i]) < spec.routed();
    const bool ascends = i % spec.chosen == 0 || rows.experts[i] > rows.experts[i - 1];
    REPRISE_CHECK(is_known && ascends, "a row's experts are unknown, repeated or not ascending");
    chosen[i] = static_cast<std::uint32_t>(rows.experts[i]);
  }
  scratch.reset();
  Step step{.kernels = kernels, .threads = threads, .options = options, .scratch = scratch};
  step.rows = rows.count;
  float* wide = scratch.floats(rows.count * width);
  threads.for_ranges(rows.count * width, width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      wide[i] = std::bit_cast<float>(static_cast<std::uint32_t>(rows.x[i]) << 16);
    }
  });
  LinearInput input(wide, rows.count);
  layer.experts.sum(step, input, {.experts = chosen, .weights = {rows.weights, choices}}, nullptr, y);
}

std::string HostExperts::arithmetic() const {
  return gpu::name_of(inside_->kernels);
}

}  // namespace reprise::models
