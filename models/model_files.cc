#include "models/model_files.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/in_parallel.h"
#include "models/files/dtype.h"
#include "models/files/json_location.h"
#include "models/files/load_error.h"
#include "models/files/safetensors.h"
#include "traces/trace.h"

namespace reprise::models {
namespace {

constexpr std::size_t kChunk = 4u << 20;   // bytes checked per task
constexpr std::size_t kChunksAtOnce = 64;  // chunks between progress reports

// Prefixes of the text model's tensors in a Hugging Face file, alone or inside a multimodal one.
constexpr std::string_view kTextPrefixes[] = {
    "model.language_model.", "language_model.model.", "model.", "backbone.", "model.backbone.", ""};
// Prefixes of the LM head, which is outside the text model.
constexpr std::string_view kHeadPrefixes[] = {"", "language_model.", "model."};
constexpr const char* kHeadName = "lm_head";

/// True if the folder has an LM head of its own (not tied to the embedding).
bool has_head(const TensorSource& source) {
  return std::any_of(std::begin(kHeadPrefixes), std::end(kHeadPrefixes), [&](std::string_view before) {
    return source.find(std::string(before) + kHeadName + ".weight") != nullptr;
  });
}

std::string text_prefix(const TensorSource& source, const std::string& embedding, const std::string& folder) {
  for (std::string_view prefix : kTextPrefixes) {
    if (source.find(std::string(prefix) + embedding) != nullptr) return std::string(prefix);
  }
  throw LoadError(folder, embedding, "is missing");
}

bool is_there(const TensorSource& source, const std::vector<StoredAs>& alternatives) {
  for (const StoredAs& stored_as : alternatives) {
    for (const std::string& name : stored_as.names) {
      if (source.find(name) != nullptr) return true;
    }
  }
  return false;
}

Shape without_ones(const Shape& shape) {
  Shape out;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(out), [](std::uint64_t d) { return d != 1; });
  return out;
}

// Parses n from "PREFIXn.…"; nullopt for other names.
std::optional<std::size_t> number_after(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  std::size_t number = 0;
  std::size_t at = prefix.size();
  for (; at < name.size() && name[at] >= '0' && name[at] <= '9' && number < 1'000'000; ++at) {
    number = number * 10 + static_cast<std::size_t>(name[at] - '0');
  }
  if (at == prefix.size() || at == name.size() || name[at] != '.') return std::nullopt;
  return number;
}

// Concatenates `parts` in a new buffer.
std::pair<std::shared_ptr<const std::byte[]>, std::span<const std::byte>> put_together(
    const std::vector<std::span<const std::byte>>& parts) {
  std::size_t size = 0;
  for (const std::span<const std::byte> part : parts) size += part.size();
  std::shared_ptr<std::byte[]> data(new std::byte[size]);
  std::size_t at = 0;
  for (const std::span<const std::byte> part : parts) {
    std::memcpy(data.get() + at, part.data(), part.size());
    at += part.size();
  }
  const std::span<const std::byte> bytes{data.get(), size};
  return {std::move(data), bytes};
}

// True if the tensor belongs to a zero expert (one that returns its input): files may have such matrices, but
// they are unused. `inside` is the tensor's name without the text model's prefix.
bool is_of_zero_expert(std::string_view inside, std::span<const LayerSpec> layer) {
  for (const MoeSpec* moe : parts_of<MoeSpec>(layer)) {
    const std::optional<std::size_t> expert = number_after(inside, moe->name + ".experts.");
    if (expert && *expert >= moe->experts && *expert < moe->routed()) return true;
  }
  return false;
}

// Throws for a weight inside a layer that the family does not know: ignoring it would give wrong answers.
void refuse_strays(const TensorSource& source, const std::set<std::string_view>& known,
                   std::string_view prefix, std::span<const LayerSpec> layers) {
  const std::size_t outside = prefix.size() - std::min(prefix.size(), std::string_view("layers.").size());
  for (const StoredTensor& tensor : source.tensors()) {
    const std::string_view name = tensor.name;
    if (known.contains(name) || !(name.ends_with(".weight") || name.ends_with(".bias"))) continue;
    const std::optional<std::size_t> layer = number_after(name, prefix);
    if (layer && *layer < layers.size() &&
        !is_of_zero_expert(name.substr(outside), layers.subspan(*layer, 1))) {
      throw LoadError(source.path_of(tensor), name, "this architecture has no such tensor");
    }
  }
}

}  // namespace

ModelFiles ModelFiles::open(const std::filesystem::path& path, std::span<const Family> known) {
  static constexpr traces::ZoneSite kSite{"open checkpoint"};
  traces::Zone zone(kSite);
  if (zone.on()) zone.text(path.string());
  ModelFiles out;
  out.path_ = path.string();
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    out.gguf_ = Gguf::open(path);
    out.config_ = ModelConfig::from_gguf(*out.gguf_, known);
    const auto alternatives_of = [](const TensorSpec& spec) {
      Alternatives alternatives{spec.gguf};
      alternatives.insert(alternatives.end(), spec.gguf_else.begin(), spec.gguf_else.end());
      return alternatives;
    };
    out.bind(alternatives_of, "blk.");
    return out;
  }
  const JsonLocation config = JsonLocation::read(path / "config.json");
  std::optional<JsonLocation> generation;
  if (std::filesystem::exists(path / "generation_config.json", ignored)) {
    generation = JsonLocation::read(path / "generation_config.json");
  }
  out.config_ = ModelConfig::from_hf(config, generation ? &*generation : nullptr, known);
  out.scheme_ = QuantScheme::read(config);
  out.safetensors_ = open_safetensors_folder(path);
  const std::string prefix = text_prefix(out.safetensors_, out.config_.embedding + ".weight", out.path_);
  if (out.config_.tied() && out.config_.head_may_differ && has_head(out.safetensors_)) {
    out.config_.head = kHeadName;
    out.config_.tensors.push_back(
        {.name = std::string(kHeadName) + ".weight", .shape = {out.config_.vocab, out.config_.hidden}});
  }
  const auto alternatives_of = [&](const TensorSpec& spec) {
    Alternatives alternatives{spec.hf};
    if (spec.name == out.config_.head + ".weight" && !out.config_.tied()) {
      for (const std::string_view before : kHeadPrefixes)
        alternatives.front().names.push_back(std::string(before) + spec.name);
      return alternatives;
    }
    if (spec.hf.names.empty()) alternatives.front().names = {spec.name};
    alternatives.insert(alternatives.end(), spec.hf_else.begin(), spec.hf_else.end());
    for (StoredAs& stored_as : alternatives) {
      for (std::string& name : stored_as.names) name.insert(0, prefix);
    }
    return alternatives;
  };
  out.bind(alternatives_of, prefix + "layers.");
  return out;
}

ModelFiles::Entry ModelFiles::entry_of(const TensorSpec& spec, const Alternatives& alternatives) const {
  const StoredTensor* stored = nullptr;
  std::optional<QuantizedTensor> quantized;
  const StoredAs* stored_as = nullptr;
  for (std::size_t i = 0; i < alternatives.size() && stored == nullptr; ++i) {
    stored_as = &alternatives[i];
    for (std::size_t k = 0; k < stored_as->names.size() && stored == nullptr; ++k) {
      if (scheme_) quantized = find_quantized(source(), stored_as->names[k], *scheme_);
      stored = quantized ? quantized->elements : source().find(stored_as->names[k]);
    }
  }
  if (stored == nullptr) {
    std::string reason = "is missing";
    for (std::size_t i = 1; i < alternatives.size(); ++i)
      reason += ", and so is " + alternatives[i].names.front();
    throw LoadError(path_, alternatives.front().names.front(), reason);
  }
  const Shape& whole = stored_as->shape.empty() ? spec.shape : stored_as->shape;
  const Shape& wanted = stored_as->piece ? stored_as->piece->of : whole;
  const Shape& found = quantized ? quantized->shape : stored->shape;
  // GGUF drops dimensions of 1, which changes no byte.
  const bool same = found == wanted || (gguf_ && without_ones(found) == without_ones(wanted));
  if (!same) {
    throw LoadError(source().path_of(*stored), stored->name,
                    "expected shape " + to_string(wanted) + ", found " + to_string(found));
  }
  Entry entry{spec, stored, {stored->bytes}, stored_as->layout, std::move(quantized)};
  if (stored_as->piece) {
    if (entry.quantized && entry.quantized->type == DType::kInt4) {
      throw LoadError(source().path_of(*stored), stored->name,
                      "a quantised matrix that holds several is not read (" + scheme_->name + ")");
    }
    REPRISE_CHECK(wanted.back() == spec.shape.back(), "a part of a tensor has other columns than the tensor");
    entry.bytes = bytes_of(*stored_as->piece, rows_of(spec.shape), stored->bytes);
  }
  return entry;
}

void ModelFiles::bind(const AlternativesOf& alternatives_of, std::string_view layer_prefix) {
  std::set<std::string_view> known;
  entries_.reserve(config_.tensors.size());
  for (const TensorSpec& spec : config_.tensors) {
    const Alternatives alternatives = alternatives_of(spec);
    if (spec.may_be_missing && !is_there(source(), alternatives)) continue;
    entries_.push_back(entry_of(spec, alternatives));
    const Entry& entry = entries_.back();
    known.insert(entry.stored->name);
    total_bytes_ += entry.quantized && !entry.is_piece() ? entry.quantized->stored_bytes() : entry.size();
  }
  known.insert(config_.ignored.begin(), config_.ignored.end());
  refuse_strays(source(), known, layer_prefix, config_.layers);
  names_.reserve(entries_.size());
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    names_.push_back(entries_[i].spec.name);
    index_.emplace(names_.back(), i);
  }
}

const ModelFiles::Entry* ModelFiles::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

const ModelFiles::Entry& ModelFiles::at(std::string_view name) const {
  const Entry* entry = find(name);
  if (entry == nullptr) throw LoadError(path_, name, "the model has no such tensor");
  return *entry;
}

bool ModelFiles::is_copied(std::string_view name) const {
  const Entry& entry = at(name);
  if (entry.quantized && entry.quantized->layout != QuantizedTensor::Layout::kFp8) return true;
  const gpu::WeightFormat* format = format_of(entry.stored->type);
  const auto address = reinterpret_cast<std::uintptr_t>(entry.bytes.front().data());
  const bool aligned = format == nullptr || address % format->alignment == 0;
  return !aligned || entry.bytes.size() > 1 ||
         (!entry.layout.is_identity() && can_move(entry.layout, entry.stored->type));
}

Tensor ModelFiles::tensor(std::string_view name, ColumnOrder order) const {
  const Entry& entry = at(name);
  const StoredTensor& stored = *entry.stored;
  if (entry.quantized) return quantized_tensor(entry, order);
  const std::string& file = source().path_of(stored);
  const gpu::WeightFormat* format = format_of(stored.type);
  if (format == nullptr || format->scales.rows != 0) {
    throw LoadError(file, stored.name,
                    "the type " + std::string(info(stored.type).name) + " cannot be computed with");
  }
  source().files()[stored.file].check_not_shrunk();

  Tensor out{.name = std::string(name),
             .type = stored.type,
             .shape = entry.spec.shape,
             .bytes = entry.bytes.front()};
  if (entry.bytes.size() > 1) {
    std::tie(out.owned, out.bytes) = put_together(entry.bytes);
  }
  bool as_is = entry.layout.is_identity();
  if (order == ColumnOrder::kAny && !can_move(entry.layout, stored.type)) {
    as_is = true;
    out.column_order = file_columns(entry.layout, out.shape.back());
  }
  const auto address = reinterpret_cast<std::uintptr_t>(out.bytes.data());
  if (as_is && address % format->alignment == 0) return out;
  try {
    // A file may store a tensor unaligned for its type; it is copied then.
    UndoneTensor undone = undo(as_is ? GgufLayout{} : entry.layout, stored.type, out.shape, out.bytes);
    out.type = undone.type;
    out.bytes = {undone.data.get(), undone.size};
    out.owned = std::move(undone.data);
  } catch (const std::invalid_argument& error) {
    throw LoadError(file, stored.name, error.what());
  }
  return out;
}

Tensor ModelFiles::quantized_tensor(const Entry& entry, ColumnOrder order) const {
  const QuantizedTensor& quantized = *entry.quantized;
  for (const MappedFile& file : source().files()) file.check_not_shrunk();
  Tensor out{.name = entry.spec.name,
             .type = quantized.type,
             .shape = entry.spec.shape,
             .bytes = entry.bytes.front()};
  if (quantized.layout == QuantizedTensor::Layout::kFp8) {
    if (entry.bytes.size() > 1) std::tie(out.owned, out.bytes) = put_together(entry.bytes);
    std::tie(out.owned_scales, out.scales) = scales_of(entry);
    return out;
  }
  RepackedTensor repacked = repack(quantized, source());
  if (order != ColumnOrder::kAny && !repacked.column_order.empty()) {
    throw LoadError(source().path_of(*entry.stored), entry.stored->name,
                    "its groups are not in the order of its columns, which is not read here");
  }
  out.bytes = {repacked.data.get(), repacked.size};
  out.owned = std::move(repacked.data);
  out.column_order = std::move(repacked.column_order);
  return out;
}

ModelFiles::OwnedBytes ModelFiles::scales_of(const Entry& entry) const {
  const std::size_t columns = entry.spec.shape.back();  // one byte per element
  const std::size_t tile_rows = format_of(entry.quantized->type)->scales.rows;
  std::vector<WidenedScales> scales;
  std::vector<std::span<const std::byte>> parts;
  for (const std::span<const std::byte>& part : entry.bytes) {
    const auto first_row = static_cast<std::size_t>(part.data() - entry.stored->bytes.data()) / columns;
    const std::size_t rows = part.size() / columns;
    if (rows % tile_rows != 0 && &part != &entry.bytes.back()) {
      throw LoadError(source().path_of(*entry.stored), entry.stored->name,
                      "a part of the matrix ends inside a tile of scales");
    }
    scales.push_back(widen_scales(*entry.quantized, source(), first_row, rows));
    parts.emplace_back(scales.back().data.get(), scales.back().size);
  }
  if (scales.size() == 1) return {scales.front().data, parts.front()};
  return put_together(parts);
}

void ModelFiles::validate(const LoadProgress& progress) const {
  struct Chunk {
    const StoredTensor* of;
    std::span<const std::byte> bytes;
    std::uint64_t counted;  // bytes counted for progress
    bool is_broken = false;
  };
  std::vector<Chunk> chunks;
  const auto add = [&](const StoredTensor& tensor, std::span<const std::byte> bytes, bool counts) {
    for (std::size_t at = 0; at < bytes.size(); at += kChunk) {
      const auto chunk = bytes.subspan(at, std::min<std::size_t>(kChunk, bytes.size() - at));
      chunks.push_back({&tensor, chunk, counts ? chunk.size() : 0});
    }
  };
  for (const Entry& entry : entries_) {
    for (const std::span<const std::byte> part : entry.bytes) add(*entry.stored, part, true);
    if (!entry.quantized) continue;
    const QuantizedTensor& quantized = *entry.quantized;
    for (const StoredTensor* other : {quantized.scales, quantized.zeros, quantized.groups}) {
      if (other != nullptr) add(*other, other->bytes, !entry.is_piece());
    }
  }
  std::uint64_t done = 0;
  for (std::size_t first = 0; first < chunks.size(); first += kChunksAtOnce) {
    for (const MappedFile& file : source().files()) file.check_not_shrunk();
    const std::size_t count = std::min(kChunksAtOnce, chunks.size() - first);
    in_parallel(count, [&](std::size_t i) {
      Chunk& chunk = chunks[first + i];
      chunk.is_broken = has_nonfinite(chunk.of->type, chunk.bytes);
    });
    for (std::size_t i = first; i < first + count; ++i) {
      if (chunks[i].is_broken) {
        throw LoadError(source().path_of(*chunks[i].of), chunks[i].of->name,
                        "has a weight that is infinite or not a number");
      }
      done += chunks[i].counted;
    }
    if (progress) progress(done, total_bytes_);
  }
}

}  // namespace reprise::models
