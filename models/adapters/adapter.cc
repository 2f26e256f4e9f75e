// From what the files say to parts of the model: who is changed, and how its rows and columns lie.

#include "models/adapters/adapter.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/digest.h"
#include "gpu/kernels.h"
#include "models/adapters/adapter_file.h"
#include "models/arch/config.h"
#include "models/files/dtype.h"
#include "models/files/load_error.h"

namespace reprise::models {
namespace {

/// A matrix of the model as a part of what a file stores.
struct TargetMatrix {
  const TensorSpec* spec;
  const StoredAs* place;
};

/// The matrices of a model by the names that files have for them.
class Targets {
 public:
  Targets(const ModelConfig& config, AdapterFile::Names names) {
    const bool hf = names == AdapterFile::Names::kHf;
    embedding_ = hf ? config.embedding + ".weight" : "token_embd.weight";
    if (config
            .tied()) {  // a head without a tensor of its own: what it multiplies by can be changed all the same
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

  /// Empty: none of the model's.
  const std::vector<TargetMatrix>& named(const std::string& stored) const {
    static const std::vector<TargetMatrix> kNone;
    const auto found = places_.find(stored);
    return found == places_.end() ? kNone : found->second;
  }
  const std::string& embedding() const { return embedding_; }

 private:
  void add(const TensorSpec& spec, const StoredAs& place, const std::string& stored) {
    places_[stored].push_back({&spec, &place});
  }

  std::string embedding_;
  TensorSpec head_;
  StoredAs as_is_;
  std::unordered_map<std::string, std::vector<TargetMatrix>> places_;
};

std::span<const std::byte> bytes_of(const AdapterMatrix& matrix) {
  return {matrix.data.get(), matrix.view.bytes()};
}

/// F32, F16 and BF16 stay; other types are widened.
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

/// The rows that belong to a matrix of the model, in Hugging Face's order.
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
    AdapterMatrix shared;  // A as it is stored
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
    const StoredAs& place = *matrix.place;
    const Shape& stored = place.piece ? place.piece->of : spec.shape;
    if (stored.size() != 2 || spec.shape.size() != 2 || !spec.name.ends_with(".weight") ||
        place.layout.values != GgufLayout::Values::kSame) {
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
        place.piece ? models::bytes_of(*place.piece, spec.shape[0], change.b->bytes)
                    : std::vector<std::span<const std::byte>>{change.b->bytes};
    const bool moves_columns = place.layout.axis == GgufLayout::Axis::kColumns;
    const std::string name = spec.name.substr(0, spec.name.size() - std::string_view(".weight").size());
    try {
      const GgufLayout none;
      if (moves_columns || shared.data == nullptr) {
        AdapterMatrix a =
            arranged(*change.a, {change.a->bytes}, change.a->shape, moves_columns ? place.layout : none);
        if (!moves_columns) shared = a;
        parts_.push_back({.name = name, .a = std::move(a)});
      } else {
        parts_.push_back({.name = name, .a = shared});
      }
      parts_.back().b = arranged(*change.b, rows, {spec.shape[0], rank}, moves_columns ? none : place.layout);
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

std::size_t Adapter::largest_rank() const {
  std::size_t rank = 0;
  for (const AdapterPart& part : parts_) rank = std::max(rank, part.rank());
  return rank;
}

}  // namespace reprise::models
