#include "models/cpu/experts.h"

#include <algorithm>
#include <numeric>

#include "models/checkpoint.h"

namespace reprise::models {
namespace {

/// Parts of work for each thread: so many that the last ones end at about the same time.
constexpr std::size_t kPartsOfThread = 8;
/// Reading an expert's weights takes as long as multiplying so many rows by them.
constexpr std::size_t kRowsOfReading = 4;

/// Some outputs of one run.
struct Share {
  std::size_t run;
  std::size_t begin;
  std::size_t end;
};

}  // namespace

struct Experts::Run {
  const Expert* expert;
  std::size_t count;         // rows
  float* output;             // [count, rows of `down`]
  const gpu::Product* gate;  // null: the expert has none
  const gpu::Product* up;
  const gpu::Product* down;
  const void* gate_input;  // [count], as `gate` wants it
  const void* up_input;    // [count], as `up` wants it
  float* inner;  // [count, intermediate]: gate(x), then silu(gate(x)) * up(x); without a gate relu(up(x))^2
  float* inner_up;      // [count, intermediate], where there is a gate
  std::byte* prepared;  // [count]: `inner`, as `down` wants it

  std::size_t intermediate() const { return expert->up.outputs(); }
  std::size_t prepared_row_bytes() const { return row_bytes_of(*down->activations, intermediate()); }
};

namespace {

/// Cuts `outputs` of all runs into shares of about the same work, enough for all threads. Shares begin at
/// multiples of the grain of their run.
template <class Run, class Outputs, class Grain>
std::vector<Share> shares_of(const std::vector<Run>& runs, unsigned threads, const Outputs& outputs,
                             const Grain& grain) {
  const auto work = [&](const Run& run) { return (run.count + kRowsOfReading) * outputs(run); };
  std::size_t total = 0;
  for (const Run& run : runs) total += work(run);
  const std::size_t share =
      threads == 1 ? total : std::max<std::size_t>(1, total / (kPartsOfThread * threads));
  std::vector<Share> out;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::size_t size = outputs(runs[i]);
    const std::size_t unit = grain(runs[i]);
    const std::size_t units = (size + unit - 1) / unit;
    const std::size_t parts = std::clamp<std::size_t>((work(runs[i]) + share / 2) / share, 1, units);
    for (std::size_t part = 0; part < parts; ++part) {
      out.push_back({i, units * part / parts * unit, std::min(size, units * (part + 1) / parts * unit)});
    }
  }
  return out;
}

}  // namespace

Expert::Expert(const Checkpoint& checkpoint, const std::string& name, bool has_gate)
    : gate(has_gate ? Linear(checkpoint, name + ".gate_proj", ColumnOrder::kOfModel) : Linear()),
      up(checkpoint, name + ".up_proj", ColumnOrder::kOfModel),
      down(checkpoint, name + ".down_proj", ColumnOrder::kOfModel) {}

void Expert::prepare(const Preparation& how) const {
  if (gate.outputs() != 0) gate.prepare(how);
  up.prepare(how);
  down.prepare(how);
}

Experts::Experts(const MoeSpec& spec, const Checkpoint& checkpoint) : spec_(spec) {
  experts_.reserve(spec.experts);
  for (std::size_t i = 0; i < spec.experts; ++i) {
    experts_.emplace_back(checkpoint, spec.name + ".experts." + std::to_string(i), spec.has_gates());
  }
}

void Experts::prepare(const Preparation& how) const {
  for (const Expert& expert : experts_) expert.prepare(how);
}

std::vector<Experts::Run> Experts::make_runs(Step& step, LinearInput& x, const ExpertRows& rows,
                                             const Beside* beside, float* outputs) const {
  std::vector<Run> runs;
  const auto add = [&](const Expert& expert, std::size_t count, float* output) -> Run& {
    return runs.emplace_back(Run{.expert = &expert,
                                 .count = count,
                                 .output = output,
                                 .gate = spec_.has_gates() ? &expert.gate.product(step) : nullptr,
                                 .up = &expert.up.product(step),
                                 .down = &expert.down.product(step),
                                 .gate_input = nullptr,
                                 .up_input = nullptr,
                                 .inner = nullptr,
                                 .inner_up = nullptr,
                                 .prepared = nullptr});
  };
  GatheredInput gathered(x, rows, spec_.width());
  for (const ExpertRows::Run& one : rows.runs()) {
    if (one.expert >= spec_.experts) break;  // only zero experts follow
    Run& run = add(experts_[one.expert], one.count, outputs + one.first * spec_.width());
    if (run.gate != nullptr) run.gate_input = gathered.of(one, *run.gate->activations, step);
    run.up_input = gathered.of(one, *run.up->activations, step);
  }
  if (beside != nullptr) {
    Run& run = add(*beside->expert, beside->x->rows(), beside->y);
    if (run.gate != nullptr) run.gate_input = beside->x->as(*run.gate->activations, step, spec_.hidden);
    run.up_input = beside->x->as(*run.up->activations, step, spec_.hidden);
  }
  take_memory(step, runs);
  return runs;
}

/// For what is between the matrices of all experts.
void Experts::take_memory(Step& step, std::vector<Run>& runs) const {
  std::size_t inner = 0;
  std::size_t prepared = 0;
  for (const Run& run : runs) {
    inner += run.count * run.intermediate();
    if (run.down->activations->prepare != nullptr) prepared += run.count * run.prepared_row_bytes();
    prepared = (prepared + 63) / 64 * 64;
  }
  float* gates = step.scratch.floats(inner);
  float* ups = spec_.has_gates() ? step.scratch.floats(inner) : nullptr;
  std::byte* forms = step.scratch.bytes(prepared);
  for (Run& run : runs) {
    run.inner = gates;
    run.inner_up = ups;
    run.prepared = forms;
    gates += run.count * run.intermediate();
    if (ups != nullptr) ups += run.count * run.intermediate();
    if (run.down->activations->prepare != nullptr) {
      forms += (run.count * run.prepared_row_bytes() + 63) / 64 * 64;
    } else {
      run.prepared = reinterpret_cast<std::byte*>(run.inner);
    }
  }
}

void Experts::compute_inner(Step& step, const std::vector<Run>& runs) const {
  const std::vector<Share> shares = shares_of(
      runs, step.threads.count(), [](const Run& run) { return run.intermediate(); },
      [](const Run& run) {
        return run.gate == nullptr ? run.up->outputs_at_once
                                   : std::lcm(run.gate->outputs_at_once, run.up->outputs_at_once);
      });
  step.threads.for_parts(shares.size(), [&](std::size_t i) {
    const Share& share = shares[i];
    const Run& run = runs[share.run];
    const std::size_t size = run.intermediate();
    const auto multiply = [&](const gpu::Product& product, const void* input, const Linear& matrix,
                              float* to) {
      product.multiply(input, run.count, matrix.weight(), to, size, share.begin, share.end);
    };
    if (run.gate != nullptr) {
      multiply(*run.gate, run.gate_input, run.expert->gate, run.inner);
      multiply(*run.up, run.up_input, run.expert->up, run.inner_up);
    } else {
      multiply(*run.up, run.up_input, run.expert->up, run.inner);
    }
    for (std::size_t row = 0; row < run.count; ++row) {
      float* inner = run.inner + row * size + share.begin;
      if (run.gate != nullptr) {
        step.kernels.swiglu(inner, run.inner_up + row * size + share.begin, inner, share.end - share.begin);
      } else {
        step.kernels.relu_squared(inner, share.end - share.begin);
      }
    }
  });
}

void Experts::compute_outputs(Step& step, const std::vector<Run>& runs) {
  const unsigned threads = step.threads.count();
  // As the last products want it, row by row.
  const std::vector<Share> row_shares = shares_of(
      runs, threads, [](const Run& run) { return run.count; }, [](const Run&) { return std::size_t{1}; });
  step.threads.for_parts(row_shares.size(), [&](std::size_t i) {
    const Share& share = row_shares[i];
    const Run& run = runs[share.run];
    if (run.down->activations->prepare == nullptr) return;
    run.down->activations->prepare(run.inner + share.begin * run.intermediate(), share.end - share.begin,
                                   run.intermediate(), run.prepared + share.begin * run.prepared_row_bytes());
  });

  const std::vector<Share> output_shares = shares_of(
      runs, threads, [](const Run& run) { return run.expert->down.outputs(); },
      [](const Run& run) { return run.down->outputs_at_once; });
  step.threads.for_parts(output_shares.size(), [&](std::size_t i) {
    const Share& share = output_shares[i];
    const Run& run = runs[share.run];
    run.down->multiply(run.prepared, run.count, run.expert->down.weight(), run.output,
                       run.expert->down.outputs(), share.begin, share.end);
  });
}

void Experts::sum(Step& step, LinearInput& x, const Choice& choice, const Beside* beside, float* y) const {
  const std::size_t width = spec_.width();
  const ExpertRows placed(choice.experts, spec_.chosen, spec_.routed());
  float* outputs = step.scratch.floats(placed.places() * width);  // zero experts leave theirs
  const std::vector<Run> runs = make_runs(step, x, placed, beside, outputs);
  compute_inner(step, runs);
  compute_outputs(step, runs);
  step.threads.for_ranges(x.rows(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      float* sum = y + row * width;
      std::fill_n(sum, width, 0.0F);
      const std::span<const std::uint32_t> own = placed.places_of(row);
      for (std::size_t i = 0; i < own.size(); ++i) {
        const std::size_t at = row * spec_.chosen + i;
        const bool is_zero = choice.experts[at] >= spec_.experts;
        const float* made = is_zero ? x.data() + row * width : outputs + own[i] * width;
        step.kernels.add_scaled(made, choice.weights[at], sum, width);
      }
    }
  });
}

}  // namespace reprise::models
