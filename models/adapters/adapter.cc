// Reads adapter files (GGUF, PEFT) and maps their changes to the model's matrices.

#include "models/adapters/adapter.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "gpu/kernels.h"
#include "models/arch/config.h"
#include "models/files/dtype.h"
#include "models/files/gguf.h"
#include "models/files/json_location.h"
#include "models/files/load_error.h"
#include "models/files/safetensors.h"
#include "models/files/tensor_source.h"

namespace reprise::models {
namespace {

// Contents of an adapter's files, before they are matched with a model.
struct AdapterFile {
  enum class Names : std::uint8_t { kHf, kGguf };

  // A change of one stored matrix.
  struct Change {
    std::string target{};             // stored matrix, with ".weight"; Hugging Face names without prefixes
    const StoredTensor* a = nullptr;  // [rank, inputs]; into `tensors`
    const StoredTensor* b = nullptr;  // [outputs, rank]
    float scale = 1;
  };

  Names names = Names::kHf;
  TensorSource tensors{};
  std::vector<Change> changes{};
};

constexpr std::uint64_t kMaxRank = 4096;

// Collects the A and B halves of each change; a half without its counterpart is an error.
class ChangePairs {
 public:
  explicit ChangePairs(const TensorSource& tensors) : tensors_(tensors) {}

  enum class Half : std::uint8_t { kA, kB };
  // `name`: the change's name in the file. Throws LoadError for a duplicate.
  void add(std::string_view name, Half half, const StoredTensor& tensor);
  struct Pair {
    std::string name;
    const StoredTensor* a = nullptr;
    const StoredTensor* b = nullptr;
  };
  // Returns the pairs in the file's order, with matching ranks. Throws LoadError.
  std::vector<Pair> take();

 private:
  const TensorSource& tensors_;
  std::vector<Pair> pairs_;
  std::unordered_map<std::string, std::size_t> index_;  // index in pairs_ by name
};

void ChangePairs::add(std::string_view name, Half half, const StoredTensor& tensor) {
  if (tensor.shape.size() != 2) {
    throw LoadError(tensors_.path_of(tensor), tensor.name,
                    "expected a matrix, found " + to_string(tensor.shape));
  }
  const auto [found, is_new] = index_.try_emplace(std::string(name), pairs_.size());
  if (is_new) pairs_.push_back({.name = found->first});
  Pair& pair = pairs_[found->second];
  const StoredTensor*& slot = half == Half::kA ? pair.a : pair.b;
  if (slot != nullptr) {
    throw LoadError(tensors_.path_of(tensor), tensor.name,
                    "the adapter also has the same matrix as " + slot->name);
  }
  slot = &tensor;
}

std::vector<ChangePairs::Pair> ChangePairs::take() {
  for (const Pair& pair : pairs_) {
    if (pair.a == nullptr || pair.b == nullptr) {
      const StoredTensor& alone = pair.a == nullptr ? *pair.b : *pair.a;
      throw LoadError(
          tensors_.path_of(alone), alone.name,
          std::string("the matching LoRA matrix, ") + (pair.a == nullptr ? "A" : "B") + ", is missing");
    }
    const std::uint64_t rank = pair.a->shape[0];
    if (rank == 0 || rank > kMaxRank) {
      throw LoadError(
          tensors_.path_of(*pair.a), pair.a->name,
          "has rank " + std::to_string(rank) + "; 1 to " + std::to_string(kMaxRank) + " are supported");
    }
    if (pair.b->shape[1] != rank) {
      throw LoadError(tensors_.path_of(*pair.b), pair.b->name,
                      "expected " + std::to_string(rank) + " columns, the rank of " + pair.a->name +
                          ", found " + to_string(pair.b->shape));
    }
  }
  return std::move(pairs_);
}

// -- GGUF

void check_text(const GgufMetadata& metadata, std::string_view key, std::string_view wanted) {
  const std::string found(metadata.text(key));
  if (found == wanted) return;
  throw LoadError(metadata.file(), key,
                  "expected '" + std::string(wanted) + "' of an adapter, found '" + found + "'");
}

void check_family(const GgufMetadata& metadata, const ModelConfig& config) {
  const std::string found(metadata.text("general.architecture"));
  for (const Family& family : families()) {
    if (family.name != config.architecture) continue;
    const auto& names = family.gguf_names;
    if (std::find(names.begin(), names.end(), found) != names.end()) return;
  }
  throw LoadError(metadata.file(), "general.architecture",
                  "is an adapter for the architecture '" + found + "'; the model has " + config.architecture);
}

// Reads a GGUF adapter as llama.cpp's converter writes it. Tensors are named after the base model's GGUF
// tensor, "blk.3.attn_q.weight.lora_a" [rank, inputs] and ".lora_b" [outputs, rank], and laid out like it.
AdapterFile read_gguf_adapter(const std::filesystem::path& path, const ModelConfig& config) {
  Gguf file = Gguf::open(path);
  const GgufMetadata& metadata = file.metadata();
  check_text(metadata, "general.type", "adapter");
  check_text(metadata, "adapter.type", "lora");
  check_family(metadata, config);
  if (metadata.has("adapter.alora.invocation_tokens")) {
    throw LoadError(metadata.file(), "adapter.alora.invocation_tokens", "is not supported");
  }
  const double alpha = metadata.number("adapter.lora.alpha");
  if (!std::isfinite(alpha)) throw LoadError(metadata.file(), "adapter.lora.alpha", "is not a finite number");

  AdapterFile out{.names = AdapterFile::Names::kGguf, .tensors = std::move(file).take_tensors()};
  ChangePairs pairs(out.tensors);
  for (const StoredTensor& tensor : out.tensors.tensors()) {
    constexpr std::string_view kMarks[] = {".lora_a", ".lora_b"};
    const std::string_view name = tensor.name;
    const bool is_a = name.ends_with(kMarks[0]);
    if (!is_a && !name.ends_with(kMarks[1])) {
      throw LoadError(path.string(), tensor.name, "is not a lora_a or lora_b tensor");
    }
    pairs.add(name.substr(0, name.size() - kMarks[0].size()),
              is_a ? ChangePairs::Half::kA : ChangePairs::Half::kB, tensor);
  }
  for (const ChangePairs::Pair& pair : pairs.take()) {
    // alpha = 0 means no scaling.
    const double scale = alpha == 0 ? 1 : alpha / static_cast<double>(pair.a->shape[0]);
    out.changes.push_back(
        {.target = pair.name, .a = pair.a, .b = pair.b, .scale = static_cast<float>(scale)});
  }
  return out;
}

// -- PEFT

constexpr std::string_view kWrapper = "base_model.model.";

// Prefixes before a text model's names in various files.
constexpr std::array<std::string_view, 4> kPrefixes{"model.", "language_model.", "backbone.", "text_model."};

[[noreturn]] void refuse(const JsonLocation& value, const std::string& shown) {
  value.fail(shown + " is not supported");
}

void refuse_true(const JsonLocation& config, std::string_view key) {
  if (config.boolean_or(key, false)) refuse(config.at(key), "true");
}

// Fails if the key is set, unless to an empty list or object.
void refuse_filled(const JsonLocation& config, std::string_view key) {
  const std::optional<JsonLocation> value = config.find(key);
  if (!value) return;
  const bool counts = value->is(JsonLocation::Kind::kArray) || value->is(JsonLocation::Kind::kObject);
  if (counts && value->size() == 0) return;
  if (value->is(JsonLocation::Kind::kArray)) {
    std::string items;
    for (std::size_t i = 0; i < value->size(); ++i) {
      const JsonLocation item = value->at(i);
      items +=
          (i == 0 ? "" : ", ") + (item.is(JsonLocation::Kind::kString) ? item.text() : std::string("..."));
    }
    refuse(*value, "[" + items + "]");
  }
  refuse(*value, value->is(JsonLocation::Kind::kString) ? "'" + value->text() + "'" : "this value");
}

// These initializations change the base's own weights, so the stored tensors are not the whole change.
void refuse_other_bases(const JsonLocation& config) {
  const std::optional<JsonLocation> init = config.find("init_lora_weights");
  if (!init || !init->is(JsonLocation::Kind::kString)) return;
  for (const std::string_view known : {"gaussian", "eva", "orthogonal"}) {
    if (init->text() == known) return;
  }
  refuse(*init, "'" + init->text() + "', which adapts weights other than the model's,");
}

// Per-matrix settings in the config; the first matching pattern applies.
class Patterns {
 public:
  Patterns(const JsonLocation& config, std::string_view key) : place_(config.find(key)) {
    if (!place_) return;
    for (std::size_t i = 0; i < place_->size(); ++i) {
      const std::string& pattern = place_->key_at(i);
      if (pattern.find_first_of("*+?()[]{}|^$\\") != std::string::npos) {
        place_->value_at(i).fail("patterns are not supported, only plain names");
      }
    }
  }

  double of(const std::string& module, double otherwise) const {
    for (std::size_t i = 0; place_ && i < place_->size(); ++i) {
      const std::string& pattern = place_->key_at(i);
      if (module == pattern || module.ends_with("." + pattern)) return place_->value_at(i).number();
    }
    return otherwise;
  }

 private:
  std::optional<JsonLocation> place_;
};

class Scales {
 public:
  explicit Scales(const JsonLocation& config)
      : rank_(config.at("r").number()),
        alpha_(config.number_or("lora_alpha", 8)),
        by_root_(config.boolean_or("use_rslora", false)),
        ranks_(config, "rank_pattern"),
        alphas_(config, "alpha_pattern"),
        file_(config.file()) {}

  /// `a` is the half that has the rank.
  float of(const std::string& module, const StoredTensor& a, const std::string& tensors) const {
    const double rank = ranks_.of(module, rank_);
    if (rank != static_cast<double>(a.shape[0])) {
      throw LoadError(tensors, a.name,
                      "has rank " + std::to_string(a.shape[0]) + ", where " + file_ + " says " +
                          std::to_string(static_cast<long long>(std::lround(std::min(rank, 1e9)))));
    }
    const double scale = alphas_.of(module, alpha_) / (by_root_ ? std::sqrt(rank) : rank);
    if (!std::isfinite(scale)) throw LoadError(file_, "lora_alpha", "is not a finite number");
    return static_cast<float>(scale);
  }

 private:
  double rank_;
  double alpha_;
  bool by_root_;
  Patterns ranks_;
  Patterns alphas_;
  std::string file_;
};

void check_config(const JsonLocation& config) {
  const std::string type = config.text_or("peft_type", "LORA");
  if (type != "LORA") config.at("peft_type").fail("'" + type + "' is not supported; LORA is");
  for (const std::string_view key : {"use_dora", "fan_in_fan_out", "lora_bias", "use_qalora"}) {
    refuse_true(config, key);
  }
  if (const std::string bias = config.text_or("bias", "none"); bias != "none") {
    refuse(config.at("bias"), "'" + bias + "'");
  }
  for (const std::string_view key : {"modules_to_save", "layer_replication", "alora_invocation_tokens",
                                     "trainable_token_indices", "target_parameters"}) {
    refuse_filled(config, key);
  }
  refuse_other_bases(config);
}

// False if `target_modules` is a list without the module; a string pattern is not checked.
bool is_target(const JsonLocation& config, const std::string& module) {
  const std::optional<JsonLocation> targets = config.find("target_modules");
  if (!targets || !targets->is(JsonLocation::Kind::kArray)) return true;
  for (const std::string& target : targets->texts()) {
    if (module == target || module.ends_with("." + target)) return true;
  }
  return false;
}

struct HalfName {
  std::string module;
  ChangePairs::Half half;
};

// Parses "MODULE.lora_A.weight" or, with an adapter name, "MODULE.lora_A.default.weight"; nullopt otherwise.
std::optional<HalfName> half_of(std::string_view name) {
  if (!name.ends_with(".weight")) return std::nullopt;
  name.remove_suffix(std::string_view(".weight").size());
  for (const auto& [mark, half] : {std::pair{std::string_view(".lora_A"), ChangePairs::Half::kA},
                                   std::pair{std::string_view(".lora_B"), ChangePairs::Half::kB}}) {
    const std::size_t at = name.rfind(mark);
    if (at == name.npos) continue;
    const std::string_view rest = name.substr(at + mark.size());
    if (!rest.empty() && (rest.front() != '.' || rest.find('.', 1) != rest.npos)) continue;
    return HalfName{std::string(name.substr(0, at)), half};
  }
  return std::nullopt;
}

std::string without_prefixes(std::string_view module) {
  for (bool more = true; more;) {
    more = false;
    for (const std::string_view prefix : kPrefixes) {
      if (!module.starts_with(prefix)) continue;
      module.remove_prefix(prefix.size());
      more = true;
    }
  }
  return std::string(module);
}

// Reads a PEFT folder. The config has the scales, the tensors' names the changed matrices:
//   base_model.model.PREFIX.layers.3.self_attn.q_proj.lora_A.weight
AdapterFile read_peft_adapter(const std::filesystem::path& folder) {
  const JsonLocation config = JsonLocation::read(folder / "adapter_config.json");
  check_config(config);
  const Scales scales(config);
  const std::filesystem::path tensors = folder / "adapter_model.safetensors";
  std::error_code ignored;
  if (!std::filesystem::exists(tensors, ignored)) {
    throw LoadError(folder.string(), "adapter_model.safetensors",
                    "is missing; other file formats of adapters are not supported");
  }
  AdapterFile out{.names = AdapterFile::Names::kHf, .tensors = open_safetensors(tensors)};
  ChangePairs pairs(out.tensors);
  for (const StoredTensor& tensor : out.tensors.tensors()) {
    const std::optional<HalfName> half = half_of(tensor.name);
    if (!half || !half->module.starts_with(kWrapper)) {
      throw LoadError(tensors.string(), tensor.name,
                      "is not named as a LoRA matrix (base_model.model.*.lora_A or lora_B)");
    }
    pairs.add(half->module.substr(kWrapper.size()), half->half, tensor);
  }
  for (const ChangePairs::Pair& pair : pairs.take()) {
    if (!is_target(config, pair.name)) {
      throw LoadError(tensors.string(), pair.a->name, "is not among target_modules of adapter_config.json");
    }
    out.changes.push_back({.target = without_prefixes(pair.name) + ".weight",
                           .a = pair.a,
                           .b = pair.b,
                           .scale = scales.of(pair.name, *pair.a, tensors.string())});
  }
  return out;
}

// -- the model's matrices: which ones a change applies to, and their stored layout

struct TargetMatrix {
  const TensorSpec* spec;
  const StoredAs* stored_as;
};

/// The model's matrices by their stored names.
class Targets {
 public:
  Targets(const ModelConfig& config, AdapterFile::Names names) {
    const bool hf = names == AdapterFile::Names::kHf;
    embedding_ = hf ? config.embedding + ".weight" : "token_embd.weight";
    if (config.tied()) {  // the LM head has no tensor of its own but can be adapted
      head_ = {.name = "lm_head.weight", .shape = {config.vocab, config.hidden}};
      add(head_, as_is_, hf ? "lm_head.weight" : "output.weight");
    }
    for (const TensorSpec& spec : config.tensors) {
      const StoredAs& usual = hf ? spec.hf : spec.gguf;
      if (usual.names.empty()) add(spec, usual, spec.name);
      for (const std::string& name : usual.names) add(spec, usual, name);
      for (const StoredAs& other : hf ? spec.hf_else : spec.gguf_else) {
        for (const std::string& name : other.names) add(spec, other, name);
      }
    }
  }
  Targets(const Targets&) = delete;
  Targets& operator=(const Targets&) = delete;

  /// The matrices stored under this name; empty: none of the model's.
  const std::vector<TargetMatrix>& named(const std::string& stored) const {
    static const std::vector<TargetMatrix> kNone;
    const auto found = matrices_.find(stored);
    return found == matrices_.end() ? kNone : found->second;
  }
  const std::string& embedding() const { return embedding_; }

 private:
  void add(const TensorSpec& spec, const StoredAs& stored_as, const std::string& stored) {
    matrices_[stored].push_back({&spec, &stored_as});
  }

  std::string embedding_;
  TensorSpec head_;
  StoredAs as_is_;
  std::unordered_map<std::string, std::vector<TargetMatrix>> matrices_;
};

std::span<const std::byte> bytes_of(const AdapterMatrix& matrix) {
  return {matrix.data.get(), matrix.view.bytes()};
}

/// Keeps F32, F16 and BF16; converts other types to F32.
AdapterMatrix matrix_of(DType type, std::size_t rows, std::size_t columns,
                        std::shared_ptr<const std::byte[]> data) {
  gpu::WeightView view{.format = format_of(type), .rows = rows, .columns = columns, .data = data.get()};
  if (type == DType::kF32 || type == DType::kF16 || type == DType::kBF16) return {view, std::move(data)};
  const gpu::FormatKernels& format = gpu::cpu_kernels(gpu::Isa::kPlain).format(*view.format);
  std::shared_ptr<std::byte[]> widened(new std::byte[rows * columns * sizeof(float)]);
  for (std::size_t row = 0; row < rows; ++row) {
    format.widen_row(view, row, reinterpret_cast<float*>(widened.get()) + row * columns);
  }
  return {{.format = format_of(DType::kF32), .rows = rows, .columns = columns, .data = widened.get()},
          widened};
}

/// The rows of one of the model's matrices, in Hugging Face's order.
AdapterMatrix arranged(const StoredTensor& stored, const std::vector<std::span<const std::byte>>& rows,
                       const Shape& shape, const GgufLayout& layout) {
  std::vector<std::byte> together;
  std::span<const std::byte> bytes = rows.front();
  if (rows.size() > 1) {
    for (const std::span<const std::byte> part : rows)
      together.insert(together.end(), part.begin(), part.end());
    bytes = together;
  }
  UndoneTensor undone = undo(layout, stored.type, shape, bytes);
  return matrix_of(undone.type, shape[0], shape[1], std::move(undone.data));
}

class Binder {
 public:
  Binder(const AdapterFile& file, const ModelConfig& config) : file_(file), targets_(config, file.names) {}

  std::vector<AdapterPart> bind() {
    for (const AdapterFile::Change& change : file_.changes) bind(change);
    std::sort(parts_.begin(), parts_.end(),
              [](const AdapterPart& a, const AdapterPart& b) { return a.name < b.name; });
    for (std::size_t i = 1; i < parts_.size(); ++i) {
      if (parts_[i].name == parts_[i - 1].name) {
        throw LoadError(file_.tensors.files().front().path(), parts_[i].name, "is adapted twice");
      }
    }
    return std::move(parts_);
  }

 private:
  [[noreturn]] void refuse(const StoredTensor& tensor, const std::string& reason) const {
    throw LoadError(file_.tensors.path_of(tensor), tensor.name, reason);
  }

  void bind(const AdapterFile::Change& change) {
    if (change.target == targets_.embedding()) refuse(*change.a, "adapting the embedding is not supported");
    const std::vector<TargetMatrix>& matrices = targets_.named(change.target);
    if (matrices.empty()) refuse(*change.a, "the model has no matrix " + change.target);
    for (const StoredTensor* tensor : {change.a, change.b}) check_values(*tensor);
    AdapterMatrix shared;  // A as stored
    for (const TargetMatrix& matrix : matrices) bind(change, matrix, shared);
  }

  void check_values(const StoredTensor& tensor) const {
    const gpu::WeightFormat* format = format_of(tensor.type);
    if (format == nullptr || format->scales.rows != 0) {
      refuse(tensor, "the type " + std::string(info(tensor.type).name) + " cannot be computed with");
    }
    file_.tensors.files()[tensor.file].check_not_shrunk();
    if (has_nonfinite(tensor.type, tensor.bytes))
      refuse(tensor, "has a weight that is infinite or not a number");
  }

  void bind(const AdapterFile::Change& change, const TargetMatrix& matrix, AdapterMatrix& shared) {
    const TensorSpec& spec = *matrix.spec;
    const StoredAs& stored_as = *matrix.stored_as;
    const Shape& stored = stored_as.piece ? stored_as.piece->of : spec.shape;
    if (stored.size() != 2 || spec.shape.size() != 2 || !spec.name.ends_with(".weight") ||
        stored_as.layout.values != GgufLayout::Values::kSame) {
      refuse(*change.a, change.target + " is not a single matrix; adapting it is not supported");
    }
    const std::uint64_t rank = change.a->shape[0];
    if (change.a->shape[1] != stored[1]) {
      refuse(*change.a,
             "expected shape " + to_string({rank, stored[1]}) + ", found " + to_string(change.a->shape));
    }
    if (change.b->shape[0] != stored[0]) {
      refuse(*change.b,
             "expected shape " + to_string({stored[0], rank}) + ", found " + to_string(change.b->shape));
    }
    const std::vector<std::span<const std::byte>> rows =
        stored_as.piece ? models::bytes_of(*stored_as.piece, spec.shape[0], change.b->bytes)
                        : std::vector<std::span<const std::byte>>{change.b->bytes};
    const bool moves_columns = stored_as.layout.axis == GgufLayout::Axis::kColumns;
    const std::string name = spec.name.substr(0, spec.name.size() - std::string_view(".weight").size());
    try {
      const GgufLayout none;
      if (moves_columns || shared.data == nullptr) {
        AdapterMatrix a =
            arranged(*change.a, {change.a->bytes}, change.a->shape, moves_columns ? stored_as.layout : none);
        if (!moves_columns) shared = a;
        parts_.push_back({.name = name, .a = std::move(a)});
      } else {
        parts_.push_back({.name = name, .a = shared});
      }
      parts_.back().b =
          arranged(*change.b, rows, {spec.shape[0], rank}, moves_columns ? none : stored_as.layout);
      parts_.back().scale = change.scale;
    } catch (const std::invalid_argument& error) {
      refuse(*change.a, error.what());
    }
  }

  const AdapterFile& file_;
  const Targets targets_;
  std::vector<AdapterPart> parts_;
};

std::uint64_t digest_of_parts(const std::vector<AdapterPart>& parts) {
  Digest digest;
  for (const AdapterPart& part : parts) {
    digest.add(part.name).add(std::uint64_t{std::bit_cast<std::uint32_t>(part.scale)});
    for (const AdapterMatrix* matrix : {&part.a, &part.b}) {
      digest.add(matrix->view.format->name).add(std::uint64_t{matrix->view.rows}).add(bytes_of(*matrix));
    }
  }
  return digest.value();
}

}  // namespace

Adapter Adapter::open(const std::filesystem::path& path, const ModelConfig& config) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  const AdapterFile file = is_folder ? read_peft_adapter(path) : read_gguf_adapter(path, config);
  Adapter out;
  out.path_ = path.string();
  out.parts_ = Binder(file, config).bind();
  if (out.parts_.empty()) throw LoadError(out.path_, "", "changes no matrix");
  std::unordered_set<const std::byte*> counted;
  for (const AdapterPart& part : out.parts_) {
    for (const AdapterMatrix* matrix : {&part.a, &part.b}) {
      if (counted.insert(matrix->data.get()).second) out.bytes_ += matrix->view.bytes();
    }
  }
  out.digest_ = digest_of_parts(out.parts_);
  return out;
}

std::size_t Adapter::max_rank() const {
  std::size_t rank = 0;
  for (const AdapterPart& part : parts_) rank = std::max(rank, part.rank());
  return rank;
}

}  // namespace reprise::models
