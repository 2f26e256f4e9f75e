// Mixtures of experts on the CPU (models/parts/moe.h): router, routed experts and shared expert; also the
// routed experts alone, for a model whose other parts are on a GPU (models/host_experts.h). Weights of
// experts that no row selected are not read.
//
// Exactness: a row's experts and their weights depend only on that row, in f32 whatever the step's compute
// setting. Each expert's GEMMs are independent of the other rows, and their outputs are added in ascending
// order of the experts, the shared one last. So the bits of a row depend neither on the batch nor on the
// threads.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <deque>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "models/cpu/linear.h"
#include "models/cpu/moe.h"
#include "models/cpu/part.h"
#include "models/host_experts.h"
#include "models/model_files.h"
#include "models/parts/moe.h"
#include "models/weight_tensors.h"
#include "traces/trace.h"

namespace reprise::models::cpu {

ExpertRows::ExpertRows(std::span<const std::uint32_t> chosen, std::size_t per_row, std::size_t experts)
    : per_row_(per_row), row_at_(chosen.size()), routed_row_(chosen.size()) {
  std::vector<std::uint32_t> next(experts, 0);  // counts, then the next routed row of each expert
  for (const std::uint32_t expert : chosen) ++next[expert];
  std::uint32_t first = 0;
  for (std::size_t expert = 0; expert < experts; ++expert) {
    const std::uint32_t count = next[expert];
    if (count != 0) runs_.push_back({.expert = expert, .first = first, .count = count});
    next[expert] = first;
    first += count;
  }
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const std::uint32_t routed_row = next[chosen[i]]++;
    row_at_[routed_row] = static_cast<std::uint32_t>(i / per_row);
    routed_row_[i] = routed_row;
  }
}

namespace {

/// Work items per thread, enough for the threads to finish at about the same time.
constexpr std::size_t kPartsOfThread = 8;
/// Cost of reading an expert's weights, in rows multiplied by them.
constexpr std::size_t kRowsOfReading = 4;

/// Outputs [begin, end) of one run.
struct Share {
  std::size_t run;
  std::size_t begin;
  std::size_t end;
};

/// Returns the row stride of an activation form, in bytes.
std::size_t row_bytes_of(const gpu::ActivationForm& form, std::size_t columns) {
  return form.row_bytes == nullptr ? columns * sizeof(float) : form.row_bytes(columns);
}

/// Input rows gathered by expert, those of a run consecutive, in the activation form of a GEMM. Allocated
/// from the step's scratch memory, as in LinearInput.
class GatheredInput {
 public:
  GatheredInput(LinearInput& input, const ExpertRows& rows, std::size_t columns)
      : input_(input), rows_(rows), columns_(columns) {}

  /// [run.count rows in this form]
  const void* of(const ExpertRows::Run& run, const gpu::ActivationForm& form, Step& step);

 private:
  const std::byte* gathered(const gpu::ActivationForm& form, const std::byte* from, std::size_t row_bytes,
                            Step& step);

  LinearInput& input_;
  const ExpertRows& rows_;
  std::size_t columns_;
  std::vector<std::pair<const gpu::ActivationForm*, const std::byte*>> gathered_;  // [routed rows] each
};

const void* GatheredInput::of(const ExpertRows::Run& run, const gpu::ActivationForm& form, Step& step) {
  const auto* all = static_cast<const std::byte*>(input_.as(form, step, columns_));
  const std::size_t row_bytes = row_bytes_of(form, columns_);
  if (rows_.is_consecutive(run)) return all + rows_.row_at()[run.first] * row_bytes;
  return gathered(form, all, row_bytes, step) + run.first * row_bytes;
}

const std::byte* GatheredInput::gathered(const gpu::ActivationForm& form, const std::byte* from,
                                         std::size_t row_bytes, Step& step) {
  for (const auto& [known, rows] : gathered_) {
    if (known == &form) return rows;
  }
  std::byte* to = step.scratch.bytes(rows_.routed_rows() * row_bytes);
  step.threads.for_ranges(rows_.routed_rows(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t routed_row = begin; routed_row < end; ++routed_row) {
      std::memcpy(to + routed_row * row_bytes, from + rows_.row_at()[routed_row] * row_bytes, row_bytes);
    }
  });
  gathered_.emplace_back(&form, to);
  return to;
}

struct Expert {
  Expert(const ModelFiles& files, const std::string& name, bool has_gate);
  void prepare(const Preparation& how) const;

  Linear gate;  // empty if experts have no gate
  Linear up;
  Linear down;
};

/// The routed experts: computes their weighted sum for rows whose routing is known. Adapters do not change
/// them.
class Experts {
 public:
  /// Max rows per call of sum(); callers split larger steps, since scratch memory per row and expert would
  /// outgrow the model.
  static constexpr std::size_t kMaxRowsAtOnce = 1024;

  struct Choice {
    std::span<const std::uint32_t> experts;  // [rows, spec.chosen]: ascending in a row
    std::span<const float> weights;          // [rows, spec.chosen]
  };

  /// A shared expert, computed together with the routed ones.
  struct SharedExpert {
    const Expert* expert;
    LinearInput* x;  // [rows, hidden]
    float* y;        // [rows, hidden]
  };

  Experts(const MoeSpec& spec, const ModelFiles& files);
  void prepare(const Preparation& how) const;

  /// x [rows, width] -> y [rows, width], at most kMaxRowsAtOnce rows. `shared_expert` null: none. The caller
  /// releases the scratch memory that it takes.
  void sum(Step& step, LinearInput& x, const Choice& choice, const SharedExpert* shared_expert,
           float* y) const;

 private:
  struct Run;

  std::vector<Run> make_runs(Step& step, LinearInput& x, const ExpertRows& rows,
                             const SharedExpert* shared_expert, float* outputs) const;
  void take_memory(Step& step, std::vector<Run>& runs) const;
  void compute_inner(Step& step, const std::vector<Run>& runs) const;
  static void compute_outputs(Step& step, const std::vector<Run>& runs);

  const MoeSpec spec_;
  std::vector<Expert> experts_;
};

struct Experts::Run {
  const Expert* expert;
  std::size_t count;         // rows
  float* output;             // [count, rows of `down`]
  const gpu::Product* gate;  // null: the expert has none
  const gpu::Product* up;
  const gpu::Product* down;
  const void* gate_input;  // [count] rows in the form of `gate`
  const void* up_input;    // [count] rows in the form of `up`
  float* inner;  // [count, intermediate]: gate(x), then silu(gate(x)) * up(x); without a gate relu(up(x))^2
  float* inner_up;      // [count, intermediate] if there is a gate
  std::byte* prepared;  // [count] rows of `inner` in the form of `down`

  std::size_t intermediate() const { return expert->up.outputs(); }
  std::size_t prepared_row_bytes() const { return row_bytes_of(*down->activations, intermediate()); }
};

/// Splits `outputs` of all runs into shares of about equal work, several per thread. Shares begin at
/// multiples of the run's grain.
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

Expert::Expert(const ModelFiles& files, const std::string& name, bool has_gate)
    : gate(has_gate ? Linear(files, name + ".gate_proj", ColumnOrder::kOfModel) : Linear()),
      up(files, name + ".up_proj", ColumnOrder::kOfModel),
      down(files, name + ".down_proj", ColumnOrder::kOfModel) {}

void Expert::prepare(const Preparation& how) const {
  if (gate.outputs() != 0) gate.prepare(how);
  up.prepare(how);
  down.prepare(how);
}

Experts::Experts(const MoeSpec& spec, const ModelFiles& files) : spec_(spec) {
  experts_.reserve(spec.experts);
  for (std::size_t i = 0; i < spec.experts; ++i) {
    experts_.emplace_back(files, spec.name + ".experts." + std::to_string(i), spec.has_gates());
  }
}

void Experts::prepare(const Preparation& how) const {
  for (const Expert& expert : experts_) expert.prepare(how);
}

std::vector<Experts::Run> Experts::make_runs(Step& step, LinearInput& x, const ExpertRows& rows,
                                             const SharedExpert* shared_expert, float* outputs) const {
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
  if (shared_expert != nullptr) {
    Run& run = add(*shared_expert->expert, shared_expert->x->rows(), shared_expert->y);
    if (run.gate != nullptr)
      run.gate_input = shared_expert->x->as(*run.gate->activations, step, spec_.hidden);
    run.up_input = shared_expert->x->as(*run.up->activations, step, spec_.hidden);
  }
  take_memory(step, runs);
  return runs;
}

/// Allocates the buffers between the matrices of all runs.
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
  // Converts `inner`, row by row, to the form of `down`.
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

void Experts::sum(Step& step, LinearInput& x, const Choice& choice, const SharedExpert* shared_expert,
                  float* y) const {
  const std::size_t width = spec_.width();
  const ExpertRows grouped(choice.experts, spec_.chosen, spec_.routed());
  float* outputs = step.scratch.floats(grouped.routed_rows() * width);  // zero experts: unused
  const std::vector<Run> runs = make_runs(step, x, grouped, shared_expert, outputs);
  compute_inner(step, runs);
  compute_outputs(step, runs);
  step.threads.for_ranges(x.rows(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      float* sum = y + row * width;
      std::fill_n(sum, width, 0.0F);
      const std::span<const std::uint32_t> own = grouped.routed_rows_of(row);
      for (std::size_t i = 0; i < own.size(); ++i) {
        const std::size_t at = row * spec_.chosen + i;
        const bool is_zero = choice.experts[at] >= spec_.experts;
        const float* made = is_zero ? x.data() + row * width : outputs + own[i] * width;
        step.kernels.add_scaled(made, choice.weights[at], sum, width);
      }
    }
  });
}

class Moe : public Part {
 public:
  Moe(const MoeSpec& spec, const ModelFiles& files);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override;
  const traces::ZoneSite& site() const override {
    static constexpr traces::ZoneSite kSite{"mixture of experts"};
    return kSite;
  }

 private:
  struct Routes {
    std::vector<std::uint32_t> chosen;  // [rows, spec.chosen]: experts, ascending
    std::vector<float> weights;         // [rows, spec.chosen]
    std::vector<float> shared_weights;  // [rows]; empty: no shared expert
  };

  /// Computes y from x, both [rows, hidden]: rows of the step from `first_row` on.
  void apply_rows(Step& step, std::size_t first_row, const float* x, std::size_t rows, float* y) const;
  Routes route(Step& step, LinearInput& x) const;

  const MoeSpec spec_;
  Linear router_;
  std::vector<float> bias_;  // [experts + zero experts]; empty: none
  Linear latent_in_;         // both empty if there is no latent size
  Linear latent_out_;
  Experts experts_;
  Linear shared_gate_;          // empty if there is no gated shared expert
  std::vector<Expert> shared_;  // 0 or 1
};

Moe::Moe(const MoeSpec& spec, const ModelFiles& files)
    : spec_(spec), router_(files, spec.name + ".gate"), experts_(spec, files) {
  if (spec.latent != 0) {
    latent_in_ = Linear(files, spec.name + ".fc1_latent_proj");
    latent_out_ = Linear(files, spec.name + ".fc2_latent_proj");
  }
  if (spec.correction_bias) bias_ = load_vector(files, spec.name + ".gate.e_score_correction_bias");
  if (!spec.has_shared()) return;
  if (spec.shared_gate) shared_gate_ = Linear(files, spec.name + ".shared_expert_gate");
  shared_.emplace_back(files, spec.name + ".shared_expert", spec.has_gates());
}

void Moe::prepare(const Preparation& how) const {
  experts_.prepare(how);
  for (const Expert& expert : shared_) expert.prepare(how);
  if (spec_.latent == 0) return;
  latent_in_.prepare(how);
  latent_out_.prepare(how);
}

Moe::Routes Moe::route(Step& step, LinearInput& x) const {
  const std::size_t rows = x.rows();
  Routes routes;
  routes.chosen.resize(rows * spec_.chosen);
  routes.weights.resize(rows * spec_.chosen);
  const std::size_t routed = spec_.routed();
  float* logits = step.scratch.floats(rows * routed);  // kept: x may cache forms after it
  router_.apply_exactly(step, x, logits);
  const std::size_t own = 2 * routed + spec_.groups;
  float* scratch = step.scratch.floats(rows * own);
  step.threads.for_ranges(rows, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      step.kernels.route_experts({.logits = logits + row * routed,
                                  .experts = routed,
                                  .chosen = spec_.chosen,
                                  .normalized = spec_.normalized,
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

void Moe::apply_rows(Step& step, std::size_t first_row, const float* x, std::size_t rows, float* y) const {
  const std::size_t mark = step.scratch.mark();
  const std::size_t width = spec_.width();
  const float* narrow = x;  // [rows, width]: input of the routed experts
  LinearInput input(x, rows, StepRows::together(first_row));
  if (spec_.latent != 0) {
    float* latent = step.scratch.floats(rows * width);
    latent_in_.apply(step, input, latent);
    narrow = latent;
  }
  LinearInput narrow_input(narrow, rows, StepRows::together(first_row));
  LinearInput& routed = spec_.latent != 0 ? narrow_input : input;
  const Routes routes = route(step, input);
  float* shared = spec_.has_shared() ? step.scratch.floats(rows * spec_.hidden) : nullptr;
  const Experts::SharedExpert shared_expert{
      .expert = spec_.has_shared() ? &shared_.front() : nullptr, .x = &input, .y = shared};
  float* sums = spec_.latent != 0 ? step.scratch.floats(rows * width) : y;  // [rows, width]
  experts_.sum(step, routed, {.experts = routes.chosen, .weights = routes.weights},
               spec_.has_shared() ? &shared_expert : nullptr, sums);
  if (spec_.latent != 0) {
    LinearInput sum_input(sums, rows, StepRows::together(first_row));
    latent_out_.apply(step, sum_input, y);
  }
  if (spec_.has_shared()) {
    step.threads.for_ranges(rows, 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        const std::size_t first = row * spec_.hidden;
        step.kernels.add_scaled(shared + first, routes.shared_weights[row], y + first, spec_.hidden);
      }
    });
  }
  step.scratch.reset(mark);
}

void Moe::apply(Step& step, const float* x, float* y) const {
  constexpr std::size_t kMax = Experts::kMaxRowsAtOnce;
  for (std::size_t first = 0; first < step.rows; first += kMax) {
    apply_rows(step, first, x + first * spec_.hidden, std::min(kMax, step.rows - first),
               y + first * spec_.hidden);
  }
}

}  // namespace

std::unique_ptr<Part> make_part(const MoeSpec& spec, BuildContext& context) {
  return std::make_unique<Moe>(spec, context.files);
}

}  // namespace reprise::models::cpu

namespace reprise::models {

struct HostExperts::Inside {
  struct Layer {
    MoeSpec spec;
    cpu::Experts experts;
  };

  Inside(const ComputeOptions& how, unsigned thread_count)
      : options(how), threads(thread_count), kernels(gpu::cpu_kernels(how.isa)) {}

  const ComputeOptions options;
  gpu::Threads threads;
  const gpu::Kernels& kernels;
  cpu::Scratch scratch;
  std::deque<Layer> layers;
  std::vector<std::uint32_t> chosen;  // [rows, spec.chosen] of the current call

  void sum(const Layer& layer, const ChosenRows& rows, float* y);
};

HostExperts::HostExperts(const ComputeOptions& options, unsigned threads)
    : inside_(std::make_unique<Inside>(options, threads)) {}

HostExperts::~HostExperts() = default;

std::size_t HostExperts::add(const MoeSpec& spec, const ModelFiles& files) {
  inside_->layers.push_back({.spec = spec, .experts = cpu::Experts(spec, files)});
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
  for (std::size_t first = 0; first < rows.count; first += cpu::Experts::kMaxRowsAtOnce) {
    const std::size_t choice = first * own.spec.chosen;
    inside_->sum(own,
                 {.count = std::min(cpu::Experts::kMaxRowsAtOnce, rows.count - first),
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
  // The experts come from GPU memory and are used as indices on the host.
  chosen.resize(choices);
  for (std::size_t i = 0; i < choices; ++i) {
    const bool is_known = rows.experts[i] >= 0 && static_cast<std::size_t>(rows.experts[i]) < spec.routed();
    const bool ascends = i % spec.chosen == 0 || rows.experts[i] > rows.experts[i - 1];
    REPRISE_CHECK(is_known && ascends, "a row's experts are unknown, repeated or not ascending");
    chosen[i] = static_cast<std::uint32_t>(rows.experts[i]);
  }
  scratch.reset();
  cpu::Step step{.kernels = kernels, .threads = threads, .options = options, .scratch = scratch};
  step.rows = rows.count;
  float* wide = scratch.floats(rows.count * width);
  threads.for_ranges(rows.count * width, width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      wide[i] = std::bit_cast<float>(static_cast<std::uint32_t>(rows.x[i]) << 16);
    }
  });
  cpu::LinearInput input(wide, rows.count);
  layer.experts.sum(step, input, {.experts = chosen, .weights = {rows.weights, choices}}, nullptr, y);
}

std::string HostExperts::arithmetic() const {
  return gpu::name_of(inside_->kernels);
}

}  // namespace reprise::models
