#include "models/cpu/moe.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "models/checkpoint.h"
#include "models/weight_tensors.h"

namespace reprise::models {
namespace {

/// More rows are computed in turns: what is kept for every row and expert would outgrow the model.
constexpr std::size_t kMostRowsAtOnce = 1024;
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

struct Moe::Run {
  const Expert* expert;
  std::size_t first;  // place; those of the shared expert follow all others
  std::size_t count;  // rows
  const gpu::Product* gate;
  const gpu::Product* up;
  const gpu::Product* down;
  const void* gate_input;  // [count], as `gate` wants it
  const void* up_input;    // [count], as `up` wants it
  float* inner;            // [count, intermediate]: gate(x), then silu(gate(x)) * up(x)
  float* inner_up;         // [count, intermediate]
  std::byte* prepared;     // [count]: `inner`, as `down` wants it

  std::size_t intermediate() const { return expert->gate.outputs(); }
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

Moe::Expert::Expert(const Checkpoint& checkpoint, const std::string& name)
    : gate(checkpoint, name + ".gate_proj", ColumnOrder::kOfModel),
      up(checkpoint, name + ".up_proj", ColumnOrder::kOfModel),
      down(checkpoint, name + ".down_proj", ColumnOrder::kOfModel) {}

Moe::Moe(const MoeSpec& spec, const Checkpoint& checkpoint)
    : spec_(spec), router_(checkpoint, spec.name + ".gate") {
  experts_.reserve(spec.experts);
  for (std::size_t i = 0; i < spec.experts; ++i) {
    experts_.emplace_back(checkpoint, spec.name + ".experts." + std::to_string(i));
  }
  if (spec.correction_bias) bias_ = load_vector(checkpoint, spec.name + ".gate.e_score_correction_bias");
  if (!spec.has_shared()) return;
  if (spec.shared_gate) shared_gate_ = Linear(checkpoint, spec.name + ".shared_expert_gate");
  shared_.emplace_back(checkpoint, spec.name + ".shared_expert");
}

void Moe::prepare(const Preparation& how) const {
  for (const std::vector<Expert>* experts : {&experts_, &shared_}) {
    for (const Expert& expert : *experts) {
      for (const Linear* linear : {&expert.gate, &expert.up, &expert.down}) linear->prepare(how);
    }
  }
}

Moe::Routes Moe::route(Step& step, LinearInput& x) const {
  const std::size_t rows = x.rows();
  Routes routes;
  routes.chosen.resize(rows * spec_.chosen);
  routes.weights.resize(rows * spec_.chosen);
  const std::size_t routed = spec_.routed();
  float* logits = step.scratch.floats(rows * routed);  // stays: x may have been prepared behind it
  router_.apply_exactly(step, x, logits);
  const std::size_t own = 2 * routed + spec_.groups;
  float* scratch = step.scratch.floats(rows * own);
  step.threads.for_ranges(rows, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      step.kernels.route_experts({.logits = logits + row * routed,
                                  .experts = routed,
                                  .chosen = spec_.chosen,
                                  .normalised = spec_.normalised,
                                  .scores = spec_.scores,
                                  .bias = spec_.correction_bias ? bias_.data() : nullptr,
                                  .groups = spec_.groups,
                                  .chosen_groups = spec_.chosen_groups,
                                  .epsilon = spec_.epsilon,
                                  .scale = spec_.scale,
                                  .scratch = scratch + row * own,
                                  .expert = routes.chosen.data() + row * spec_.chosen,
                                  .weight = routes.weights.data() + row * spec_.chosen});
    }
  });
  if (spec_.has_shared()) {
    routes.shared_weights.assign(rows, 1.0F);
    if (spec_.shared_gate) {
      shared_gate_.apply_exactly(step, x, logits);  // [rows, 1]
      step.kernels.gate_sigmoid(logits, routes.shared_weights.data(), rows);
    }
  }
  return routes;
}

std::vector<Moe::Run> Moe::make_runs(Step& step, LinearInput& x, const ExpertRows& rows) const {
  std::vector<Run> runs;
  const auto add = [&](const Expert& expert, std::size_t first, std::size_t count) -> Run& {
    return runs.emplace_back(Run{.expert = &expert,
                                 .first = first,
                                 .count = count,
                                 .gate = &expert.gate.product(step),
                                 .up = &expert.up.product(step),
                                 .down = &expert.down.product(step),
                                 .gate_input = nullptr,
                                 .up_input = nullptr,
                                 .inner = nullptr,
                                 .inner_up = nullptr,
                                 .prepared = nullptr});
  };
  GatheredInput gathered(x, rows, spec_.hidden);
  for (const ExpertRows::Run& one : rows.runs()) {
    if (one.expert >= spec_.experts) break;  // only zero experts follow
    Run& run = add(experts_[one.expert], one.first, one.count);
    run.gate_input = gathered.of(one, *run.gate->activations, step);
    run.up_input = gathered.of(one, *run.up->activations, step);
  }
  if (spec_.has_shared()) {
    Run& run = add(shared_.front(), rows.places(), x.rows());
    run.gate_input = x.as(*run.gate->activations, step, spec_.hidden);
    run.up_input = x.as(*run.up->activations, step, spec_.hidden);
  }
  std::size_t inner = 0;
  std::size_t prepared = 0;
  for (const Run& run : runs) {
    inner += run.count * run.intermediate();
    if (run.down->activations->prepare != nullptr) prepared += run.count * run.prepared_row_bytes();
    prepared = (prepared + 15) / 16 * 16;
  }
  float* gates = step.scratch.floats(inner);
  float* ups = step.scratch.floats(inner);
  std::byte* forms = step.scratch.bytes(prepared);
  for (Run& run : runs) {
    run.inner = gates;
    run.inner_up = ups;
    run.prepared = forms;
    gates += run.count * run.intermediate();
    ups += run.count * run.intermediate();
    if (run.down->activations->prepare != nullptr) {
      forms += (run.count * run.prepared_row_bytes() + 15) / 16 * 16;
    } else {
      run.prepared = reinterpret_cast<std::byte*>(run.inner);
    }
  }
  return runs;
}

void Moe::apply_rows(Step& step, const float* x, std::size_t rows, float* y) const {
  const std::size_t mark = step.scratch.mark();
  LinearInput input(x, rows);
  const Routes routes = route(step, input);
  const ExpertRows placed(routes.chosen, spec_.chosen, spec_.routed());
  const std::vector<Run> runs = make_runs(step, input, placed);
  const unsigned threads = step.threads.count();

  // silu(gate(x)) * up(x)
  const std::vector<Share> inner_shares = shares_of(
      runs, threads, [](const Run& run) { return run.intermediate(); },
      [](const Run& run) { return std::lcm(run.gate->outputs_at_once, run.up->outputs_at_once); });
  step.threads.for_parts(inner_shares.size(), [&](std::size_t i) {
    const Share& share = inner_shares[i];
    const Run& run = runs[share.run];
    const std::size_t size = run.intermediate();
    run.gate->multiply(run.gate_input, run.count, run.expert->gate.weight(), run.inner, size, share.begin,
                       share.end);
    run.up->multiply(run.up_input, run.count, run.expert->up.weight(), run.inner_up, size, share.begin,
                     share.end);
    for (std::size_t row = 0; row < run.count; ++row) {
      float* gate = run.inner + row * size + share.begin;
      step.kernels.swiglu(gate, run.inner_up + row * size + share.begin, gate, share.end - share.begin);
    }
  });

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

  const std::size_t places = placed.places() + routes.shared_weights.size();
  float* outputs = step.scratch.floats(places * spec_.hidden);  // [places, hidden]; zero experts leave theirs
  const std::vector<Share> output_shares = shares_of(
      runs, threads, [&](const Run&) { return spec_.hidden; },
      [](const Run& run) { return run.down->outputs_at_once; });
  step.threads.for_parts(output_shares.size(), [&](std::size_t i) {
    const Share& share = output_shares[i];
    const Run& run = runs[share.run];
    run.down->multiply(run.prepared, run.count, run.expert->down.weight(), outputs + run.first * spec_.hidden,
                       spec_.hidden, share.begin, share.end);
  });

  step.threads.for_ranges(rows, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      float* sum = y + row * spec_.hidden;
      std::fill_n(sum, spec_.hidden, 0.0F);
      const std::span<const std::uint32_t> own = placed.places_of(row);
      for (std::size_t i = 0; i < own.size(); ++i) {
        const std::size_t choice = row * spec_.chosen + i;
        const bool is_zero = routes.chosen[choice] >= spec_.experts;
        const float* made = is_zero ? x + row * spec_.hidden : outputs + own[i] * spec_.hidden;
        step.kernels.add_scaled(made, routes.weights[choice], sum, spec_.hidden);
      }
      if (spec_.has_shared()) {
        step.kernels.add_scaled(outputs + (placed.places() + row) * spec_.hidden, routes.shared_weights[row],
                                sum, spec_.hidden);
      }
    }
  });
  step.scratch.reset(mark);
}

void Moe::apply(Step& step, const float* x, float* y) const {
  for (std::size_t first = 0; first < step.rows; first += kMostRowsAtOnce) {
    apply_rows(step, x + first * spec_.hidden, std::min(kMostRowsAtOnce, step.rows - first),
               y + first * spec_.hidden);
  }
}

}  // namespace reprise::models
