#include "tools/lab/lab.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "models/model.h"
#include "models/sampling/ranking.h"
#include "tools/lab/bench_report.h"
#include "tools/lab/bench_times.h"

namespace reprise::tools {
namespace {

using gpu::Sequence;
using models::Model;
using models::Slice;

// Defaults for the CPU, and for devices with a grid.
constexpr std::size_t kBatches[] = {1, 4, 16};
constexpr std::size_t kGridBatches[] = {1, 16, 64};
constexpr std::size_t kSlices[] = {16, 64, 256, 1024};
constexpr std::size_t kGridSlices[] = {256, 1024, 2048};
constexpr std::size_t kMaxTokens = 1 << 20;
constexpr std::size_t kMaxBatch = 4096;

void check(const BenchEngineOptions& options) {
  if (options.prompt < 1 || options.prompt > kMaxTokens)
    throw UsageError("--prompt: takes 1 to 1048576 tokens");
  if (options.decode < 1 || options.decode > kMaxTokens)
    throw UsageError("--decode: takes 1 to 1048576 tokens");
  for (const std::size_t slice : options.slices) {
    if (slice < 1) throw UsageError("--slices: takes numbers from 1");
  }
  for (const std::size_t batch : options.batches) {
    if (batch < 1 || batch > kMaxBatch) throw UsageError("--batches: takes numbers from 1 to 4096");
  }
  if (options.repeat < 1 || options.repeat > 1000) throw UsageError("--repeat: takes 1 to 1000");
}

/// One line of the report. Rates that do not apply are zero.
struct Line {
  std::string name;
  std::size_t batch = 0;  // sequences decoded together; 0: not a decode measurement
  Times times = {};
  double tokens = 0;       // per repetition
  double read_bytes = 0;   // weights once per forward pass; decode: also the state, counted twice if written
  double operations = 0;   // floating-point operations
  double moved_bytes = 0;  // by a copy

  double tokens_per_second() const { return tokens / times.median(); }
  double gigabytes_per_second() const { return (read_bytes + moved_bytes) / times.median() / 1e9; }
  double gigaflops() const { return operations / times.median() / 1e9; }
};

/// Min cost of a forward pass.
struct Cost {
  double layer_weights = 0;  // elements of the layers' matrices that one token is multiplied by
  double layer_bytes = 0;    // of matrices that all tokens use
  double expert_bytes = 0;   // of all experts
  double busy_experts = 1;   // share of the experts that one token uses
  double head_weights = 0;
  double head_bytes = 0;
  double recurrence = 0;          // operations per token of recurrent layers
  double attention_position = 0;  // operations per token and attended position
  double slot_bytes = 0;          // of a sequence's slot, read and written per decoded token
  double position_bytes = 0;      // of its pages, read per decoded token and position

  explicit Cost(const Model& model)
      : slot_bytes(static_cast<double>(model.state().sizes().slot_bytes)),
        position_bytes(static_cast<double>(model.state().sizes().page_bytes) / gpu::kPageTokens) {
    const models::ModelFiles& files = model.files();
    const models::ModelConfig& config = model.config();
    const auto elements = [&](const std::string& name) {
      return static_cast<double>(models::element_count(files.shape(name)).value_or(0));
    };
    const auto bytes = [&](const std::string& name) {
      return static_cast<double>(models::byte_size(files.stored_type(name), files.shape(name)).value_or(0));
    };
    const auto mixtures = models::parts_of<models::MoeSpec>(config.layers);
    if (!mixtures.empty()) {
      busy_experts =
          static_cast<double>(mixtures.front()->chosen) / static_cast<double>(mixtures.front()->routed());
    }
    for (const std::string& name : files.names()) {
      if (files.shape(name).size() != 2 || !name.starts_with("layers.")) continue;
      const bool is_expert = name.find(".experts.") != std::string::npos;
      layer_weights += elements(name) * (is_expert ? busy_experts : 1.0);
      (is_expert ? expert_bytes : layer_bytes) += bytes(name);
    }
    head_weights = elements(config.head + ".weight");
    head_bytes = bytes(config.head + ".weight");
    for (const auto* net : models::parts_of<models::GatedDeltaNetSpec>(config.layers)) {
      recurrence += 7.0 * static_cast<double>(net->state_size());
    }
    for (const auto* mamba : models::parts_of<models::Mamba2Spec>(config.layers)) {
      recurrence += 5.0 * static_cast<double>(mamba->state_elements());
    }
    for (const auto* scan : models::parts_of<models::SelectiveScanSpec>(config.layers)) {
      recurrence += 7.0 * static_cast<double>(scan->state_numbers());  // counts an exponential as one
    }
    for (const auto* attention : models::parts_of<models::AttentionSpec>(config.layers)) {
      attention_position += 4.0 * static_cast<double>(attention->q_size());
    }
  }

  /// Adds the cost of `tokens` tokens of a sequence after `before` others, with `logits` rows of logits, in
  /// `passes` forward passes.
  void add_to(Line& line, std::size_t before, std::size_t tokens, std::size_t logits,
              std::size_t passes) const {
    const auto count = static_cast<double>(tokens);
    const double positions = count * static_cast<double>(before) + count * (count + 1) / 2;
    line.tokens += count;
    const double turns = static_cast<double>(passes);
    if (passes > 0) {  // the max number of experts that a pass may need
      const double busy = std::min(1.0, busy_experts * count / turns);
      line.read_bytes += turns * (layer_bytes + busy * expert_bytes);
    }
    if (passes > 0 && logits > 0)
      line.read_bytes += head_bytes * static_cast<double>(std::min(passes, logits));
    line.operations += count * (2 * layer_weights + recurrence) + positions * attention_position +
                       2 * head_weights * static_cast<double>(logits);
  }

  /// Returns the state bytes moved to decode `tokens` tokens after `before`, one per pass.
  double state_bytes(std::size_t before, std::size_t tokens) const {
    const auto count = static_cast<double>(tokens);
    const double positions = count * static_cast<double>(before) + count * (count + 1) / 2;
    return count * 2 * slot_bytes + positions * position_bytes;
  }
};

class EngineBench {
 public:
  EngineBench(const BenchEngineOptions& options, const models::ComputeOptions& compute)
      : options_(options),
        device_(open_device(options.engine)),
        model_(device_->load(options.engine.model, compute)),
        cost_(*model_),
        room_(options.prompt + options.decode),
        store_(model_->state().sizes(), bounds()) {
    std::mt19937 random(1);
    for (std::size_t i = 0; i < options.prompt; ++i) {
      prompt_.push_back(static_cast<TokenId>(random() % model_->config().vocab));
    }
    if (room_ > model_->config().context_length) {
      throw UsageError("--prompt: with --decode it is longer than the model's context of " +
                       std::to_string(model_->config().context_length));
    }
  }

  std::vector<Line> run() {
    Sequence first = open();
    prefill(first, prompt_, slices().back());  // faults the weights into memory
    BenchProgress progress("engine", slices().size() + batches().size() + 1);
    const auto begin = [&](const std::string& what, std::size_t size) {
      progress.next(what + " " + std::to_string(size));
    };
    for (const std::size_t slice : slices()) {
      begin("prefill by", slice);
      measure_prefill(slice);
    }
    for (const std::size_t batch : batches()) {
      begin("decode of", batch);
      measure_decode(first, batch);
    }
    progress.next("snapshots");
    if (on_grid()) measure_second_turn();
    measure_snapshots(first);
    return std::move(lines_);
  }

  const Model& model() const { return *model_; }
  std::string device() const { return device_->name(); }

 private:
  gpu::StateBounds bounds() const {
    const std::size_t pages = room_ / gpu::kPageTokens + 2;
    const std::size_t sequences = *std::max_element(batches().begin(), batches().end()) + 3;
    return {.pages = pages * sequences, .slots = sequences, .memory = &device_->memory()};
  }
  bool on_grid() const { return model_->rules().grid > 1; }
  std::span<const std::size_t> batches() const {
    if (!options_.batches.empty()) return options_.batches;
    if (on_grid()) return kGridBatches;
    return kBatches;
  }

  /// Returns slices shorter than the prompt, and the whole prompt if the device can take it at once.
  std::vector<std::size_t> slices() const {
    if (!options_.slices.empty()) return options_.slices;
    std::vector<std::size_t> out;
    for (const std::size_t slice : on_grid() ? std::span<const std::size_t>(kGridSlices) : kSlices) {
      if (slice < options_.prompt) out.push_back(slice);
    }
    if (!on_grid() || options_.prompt <= device_->prefill_rows()) out.push_back(options_.prompt);
    return out;
  }

  Sequence open() {
    std::optional<Sequence> sequence = store_.open();
    if (!sequence || !sequence->reserve(room_)) throw std::runtime_error("the state does not fit the memory");
    return std::move(*sequence);
  }

  void prefill(Sequence&& sequence, std::span<const TokenId> tokens, std::size_t slice_size) {
    prefill(sequence, tokens, slice_size);
  }
  void prefill(Sequence& sequence, std::span<const TokenId> tokens, std::size_t slice_size) {
    for (std::size_t done = 0; done < tokens.size(); done += slice_size) {
      const std::size_t count = std::min(slice_size, tokens.size() - done);
      const bool last = done + count == tokens.size();
      const Slice slice{.sequence = &sequence,
                        .tokens = tokens.subspan(done, count),
                        .logits = last ? Slice::Logits::kLast : Slice::Logits::kNone};
      model_->forward({&slice, 1});
    }
  }

  void measure_prefill(std::size_t slice) {
    Line line{.name = "prefill " + std::to_string(options_.prompt) + " by " + std::to_string(slice)};
    for (unsigned i = 0; i < options_.repeat; ++i) {
      Sequence sequence = open();
      line.times.all.push_back(seconds([&] { prefill(std::move(sequence), prompt_, slice); }));
    }
    const std::size_t passes = (options_.prompt + slice - 1) / slice;
    cost_.add_to(line, 0, options_.prompt, 1, passes);
    lines_.push_back(std::move(line));
  }

  TokenId best(std::span<const float> logits) {
    models::Ranking ranking(logits, ranked_, 1);
    const models::RankedToken* first = ranking.at(0);
    return first == nullptr ? 0 : first->token;
  }

  /// Measures `batch` sequences decoding greedily after the prompt in `first`.
  void measure_decode(Sequence& first, std::size_t batch) {
    Line line{.name = "decode " + std::to_string(options_.decode) + " of " + std::to_string(batch),
              .batch = batch};
    const std::size_t vocab = model_->config().vocab;
    const TokenId next = 0;
    const std::optional<gpu::Snapshot> snapshot = store_.capture(first);
    for (unsigned i = 0; snapshot && i < options_.repeat; ++i) {
      std::vector<Sequence> sequences;
      std::vector<TokenId> tokens(batch, next);
      for (std::size_t b = 0; b < batch; ++b) {
        tokens[b] = static_cast<TokenId>((static_cast<std::size_t>(next) + b) %
                                         vocab);  // makes the sequences diverge
        std::optional<Sequence> restored = store_.restore(*snapshot).sequence;
        if (!restored || !restored->reserve(options_.decode))
          throw std::runtime_error("the state does not fit the memory");
        sequences.push_back(std::move(*restored));
      }
      line.times.all.push_back(seconds([&] {
        for (std::size_t step = 0; step < options_.decode; ++step) {
          models::DecodePass pass;
          for (std::size_t b = 0; b < batch; ++b) pass.slices.push_back({&sequences[b], {&tokens[b], 1}});
          pass.plans.assign(batch, models::SamplePlan{.temperature = 0});
          model_->decode(pass);
          for (std::size_t b = 0; b < batch; ++b) {
            tokens[b] = pass.drawn[b] ? pass.drawn[b]->token : best(pass.logits.subspan(b * vocab, vocab));
          }
        }
      }));
    }
    for (std::size_t b = 0; b < batch; ++b) {
      cost_.add_to(line, options_.prompt, options_.decode, options_.decode, b == 0 ? options_.decode : 0);
      line.read_bytes += cost_.state_bytes(options_.prompt, options_.decode);
    }
    lines_.push_back(std::move(line));
  }

  /// Measures TTFT of a next turn of 64 tokens after restoring a snapshot on the grid.
  void measure_second_turn() {
    constexpr std::size_t kTurn = 64;
    Line line{.name = "second turn, " + std::to_string(kTurn) + " new"};
    Sequence first = open();
    const std::size_t kept = options_.prompt / model_->rules().grid * model_->rules().grid;
    prefill(first, std::span(prompt_).first(kept), slices().back());
    const std::optional<gpu::Snapshot> snapshot = store_.capture(first);
    const std::vector<TokenId> turn(kTurn, 1);
    for (unsigned i = 0; snapshot && i < options_.repeat; ++i) {
      std::optional<Sequence> sequence;
      line.times.all.push_back(seconds([&] {
        sequence = store_.restore(*snapshot).sequence;
        if (!sequence || !sequence->reserve(kTurn))
          throw std::runtime_error("the state does not fit the memory");
        prefill(*sequence, turn, kTurn);
      }));
    }
    lines_.push_back(std::move(line));
  }

  void measure_snapshots(Sequence& source) {
    SnapshotTimes times = tools::measure_snapshots(store_, source, options_.repeat);
    const std::string prompt = std::to_string(options_.prompt);
    lines_.push_back({.name = "snapshot of " + prompt, .times = std::move(times.capture)});
    lines_.push_back({.name = "restore of " + prompt, .times = std::move(times.restore)});
    lines_.push_back({.name = "memcpy of the same bytes", .times = std::move(times.copy)});
    for (std::size_t i = lines_.size() - 3; i < lines_.size(); ++i) {
      lines_[i].moved_bytes = static_cast<double>(times.bytes);
    }
    if (on_grid()) lines_.pop_back();  // the line of a host memory copy does not apply to a device
  }

  const BenchEngineOptions& options_;
  const std::unique_ptr<models::Device> device_;
  const std::unique_ptr<Model> model_;
  const Cost cost_;
  const std::size_t room_;
  gpu::StateStore store_;
  std::vector<TokenId> prompt_;
  std::vector<models::RankedToken> ranked_;
  std::vector<Line> lines_;
};

void print_table(const EngineBench& bench, const std::vector<Line>& lines, unsigned repeat) {
  const models::ComputeOptions& compute = bench.model().options();
  std::printf("%s, compute %s, kv %s, %s; median of %u, spread = (slowest - fastest) / median\n",
              bench.device().c_str(), std::string(name_of(compute.compute)).c_str(),
              std::string(name_of(compute.kv)).c_str(), std::string(name_of(compute.isa)).c_str(), repeat);
  std::printf("%-28s %11s %8s %11s %9s %10s\n", "", "ms", "spread", "tokens/s", "GB/s", "GFLOP/s");
  for (const Line& line : lines) {
    std::printf("%-28s %11.2f %7.1f%%", line.name.c_str(), line.times.median() * 1e3,
                line.times.spread() * 100);
    if (line.tokens > 0) {
      std::printf(" %11.1f %9.2f %10.1f\n", line.tokens_per_second(), line.gigabytes_per_second(),
                  line.gigaflops());
    } else {
      std::printf(" %11s %9.2f %10s\n", "", line.gigabytes_per_second(), "");
    }
  }
}

void print_json(const EngineBench& bench, const std::vector<Line>& lines, unsigned repeat) {
  const models::ComputeOptions& compute = bench.model().options();
  std::printf(R"({"device":"%s","compute":"%s","kv_dtype":"%s","isa":"%s","repeat":%u,"results":[)",
              bench.device().c_str(), std::string(name_of(compute.compute)).c_str(),
              std::string(name_of(compute.kv)).c_str(), std::string(name_of(compute.isa)).c_str(), repeat);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    std::printf(R"(%s{"name":"%s","ms":%.9g,"spread":%.9g,"gb_per_s":%.9g)", i == 0 ? "" : ",",
                line.name.c_str(), line.times.median() * 1e3, line.times.spread(),
                line.gigabytes_per_second());
    if (line.tokens > 0) {
      std::printf(R"(,"tokens_per_s":%.9g,"gflop_per_s":%.9g)", line.tokens_per_second(), line.gigaflops());
    }
    std::printf("}");
  }
  std::printf("]}\n");
}

void report_engine(const EngineBench& bench, const BenchEngineOptions& options,
                   const std::vector<Line>& lines, BenchReport& report) {
  ReportChart together{.title = "tokens decoded a second by sequences that decode together",
                       .across = "sequences that decode together",
                       .unit = "tokens/s",
                       .places = {},
                       .curves = {{"all of them", {}}, {"each", {}}}};
  std::string table =
      "<div class=\"wide\"><table><tr><th></th><th>ms</th><th>spread %</th><th>tokens/s</th></tr>\n";
  for (const Line& line : lines) {
    if (line.times.empty()) continue;
    table += "<tr><td>" + html_text(line.name) + "</td><td>" + short_number(line.times.median() * 1e3) +
             "</td><td>" + short_number(line.times.spread() * 100) + "</td><td>" +
             (line.tokens > 0 ? short_number(line.tokens_per_second()) : "") + "</td></tr>\n";
    if (line.batch == 0) continue;
    together.places.push_back(std::to_string(line.batch));
    together.curves[0].values.emplace_back(line.tokens_per_second());
    together.curves[1].values.emplace_back(line.tokens_per_second() / static_cast<double>(line.batch));
  }
  const models::ComputeOptions& compute = bench.model().options();
  report.add("Decode over batch",
             bench.device() + ", compute " + std::string(name_of(compute.compute)) + ", kv " +
                 std::string(name_of(compute.kv)) + ", " + std::string(name_of(compute.isa)) + "; behind " +
                 std::to_string(options.prompt) + " tokens, medians of " + std::to_string(options.repeat) +
                 ".",
             report_chart(together) + table + "</table></div>\n");
}

}  // namespace

int bench_engine(const BenchEngineOptions& options, BenchReport& report) {
  check(options);
  EngineBench bench(options, compute_options(options.engine));
  const std::vector<Line> lines = bench.run();
  (options.json ? print_json : print_table)(bench, lines, options.repeat);
  report_engine(bench, options, lines, report);
  return 0;
}

}  // namespace reprise::tools
